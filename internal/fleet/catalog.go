package fleet

import (
	"context"
	"strings"
	"sync"
	"time"
)

// catalogTTL is how long projects and roles are answered from memory.
const catalogTTL = 10 * time.Second

// catalog remembers the backend's projects and roles, so that checking a name does not cost a round trip each time,
// and reads go on while the backend does not answer.
type catalog struct {
	backend Place
	now     func() time.Time

	mu       sync.Mutex
	projects cached[[]Project]
	roles    map[string]cached[[]Role]
}

type cached[T any] struct {
	value T
	at    time.Time
}

func newCatalog(b Place, now func() time.Time) *catalog {
	return &catalog{backend: b, now: now, roles: map[string]cached[[]Role]{}}
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
	got, err := c.backend.Projects(ctx)
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

// Roles returns the roles of the project of exactly this name.
func (c *catalog) Roles(ctx context.Context, project string) ([]Role, error) {
	c.mu.Lock()
	old := c.roles[project]
	c.mu.Unlock()
	if c.fresh(old.at) {
		return old.value, nil
	}
	got, err := c.backend.Roles(ctx, project)
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

// project returns the project that a caller means by name.
func (c *catalog) project(ctx context.Context, name string) (Project, error) {
	all, err := c.Projects(ctx)
	if err != nil {
		return Project{}, err
	}
	names := make([]string, 0, len(all))
	for _, p := range all {
		if strings.EqualFold(p.Name, name) {
			return p, nil
		}
		names = append(names, p.Name)
	}
	for _, p := range all {
		if p.Matches(name) {
			return p, nil
		}
	}
	return Project{}, Errorf(ReasonProjectNotFound, "project %q not found: the projects are %s", shorten(name, 60), list(names)).
		With("project", shorten(name, 60)).With("available", strings.Join(names, ", "))
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
