package fleet

import (
	"context"
	"strings"
	"sync"
	"time"
)

// catalogTTL is how long projects and roles are answered from memory.
const catalogTTL = 10 * time.Second

// catalog remembers a place's projects and roles, so that checking a name does not cost a round trip each time,
// and reads go on while the place does not answer.
type catalog struct {
	place Place
	now   func() time.Time

	mu       sync.Mutex
	projects cached[[]Project]
	roles    map[string]cached[[]Role]
}

type cached[T any] struct {
	value T
	at    time.Time
}

func newCatalog(p Place, now func() time.Time) *catalog {
	return &catalog{place: p, now: now, roles: map[string]cached[[]Role]{}}
}

func (c *catalog) fresh(at time.Time) bool {
	return !at.IsZero() && c.now().Sub(at) < catalogTTL
}

// Projects returns the projects, by name.
func (c *catalog) Projects(ctx context.Context) ([]Project, error) {
	c.mu.Lock()
	old := c.projects
	c.mu.Unlock()
	if c.fresh(old.at) {
		return old.value, nil
	}
	got, err := c.place.Projects(ctx)
	if err != nil {
		if !old.at.IsZero() && ReasonOf(err) == ReasonBackendUnavailable {
			return old.value, nil
		}
		return nil, err
	}
	c.mu.Lock()
	c.projects = cached[[]Project]{got, c.now()}
	c.mu.Unlock()
	return got, nil
}

// remembered returns the projects as they were last listed; nil if they never were.
func (c *catalog) remembered() []Project {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.projects.value
}

// Roles returns the roles of the project of exactly this name.
func (c *catalog) Roles(ctx context.Context, project string) ([]Role, error) {
	c.mu.Lock()
	old := c.roles[project]
	c.mu.Unlock()
	if c.fresh(old.at) {
		return old.value, nil
	}
	got, err := c.place.Roles(ctx, project)
	if err != nil {
		if !old.at.IsZero() && ReasonOf(err) == ReasonBackendUnavailable {
			return old.value, nil
		}
		return nil, err
	}
	c.mu.Lock()
	c.roles[project] = cached[[]Role]{got, c.now()}
	c.mu.Unlock()
	return got, nil
}

// role returns the role of the project that a caller means by name, or the default role when it names none.
func (c *catalog) role(ctx context.Context, project, name string) (Role, error) {
	all, err := c.Roles(ctx, project)
	if err != nil {
		return Role{}, err
	}
	names := make([]string, 0, len(all))
	for _, r := range all {
		if name == "" && r.Default || strings.EqualFold(r.Name, name) {
			return r, nil
		}
		names = append(names, r.Name)
	}
	if name == "" && len(all) > 0 {
		return all[0], nil
	}
	return Role{}, Errorf(ReasonRoleNotFound, "project %q has no role %q: its roles are %s", project, shorten(name, 60), list(names)).
		With("role", shorten(name, 60)).With("project", project).With("available", strings.Join(names, ", "))
}

// asInvalid makes the error that a thing was not found one about a request's field.
func asInvalid(err error, field string) error {
	if e, ok := err.(*Error); ok && e.Code == NotFound { //nolint:errorlint // only the catalog's own errors
		e.Code, e.Field = InvalidArgument, field
		return e.With("field", field)
	}
	return err
}
