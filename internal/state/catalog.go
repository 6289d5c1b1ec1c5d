package state

import (
	"context"
	"sync"
	"time"

	"fleet/internal/fleet"
)

// catalogTTL is how long projects and roles are cached.
const catalogTTL = 10 * time.Second

// catalog caches a place's projects and roles. So checking a name does not always cost a round trip, and reads work while
// the place does not answer.
type catalog struct {
	place fleet.Place
	now   func() time.Time

	mu       sync.Mutex
	epoch    int // counts the calls of Invalidate
	projects cached[[]fleet.Project]
	roles    map[string]cached[[]fleet.Role]
}

type cached[T any] struct {
	value T
	at    time.Time
}

func newCatalog(p fleet.Place, now func() time.Time) *catalog {
	return &catalog{place: p, now: now, roles: map[string]cached[[]fleet.Role]{}}
}

func (c *catalog) fresh(at time.Time) bool {
	return !at.IsZero() && c.now().Sub(at) < catalogTTL
}

// Projects returns the projects, by name.
func (c *catalog) Projects(ctx context.Context) ([]fleet.Project, error) {
	c.mu.Lock()
	old, epoch := c.projects, c.epoch
	c.mu.Unlock()
	if c.fresh(old.at) {
		return old.value, nil
	}
	got, err := c.place.Projects(ctx)
	if err != nil {
		if !old.at.IsZero() && fleet.ReasonOf(err) == fleet.ReasonBackendUnavailable {
			return old.value, nil
		}
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.epoch == epoch {
		c.projects = cached[[]fleet.Project]{got, c.now()}
	}
	return got, nil
}

// Invalidate makes the next calls ask the place, because its projects have changed.
func (c *catalog) Invalidate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch++
	c.projects, c.roles = cached[[]fleet.Project]{}, map[string]cached[[]fleet.Role]{}
}

// lastProjects returns the projects of the last successful listing; nil if there was none.
func (c *catalog) lastProjects() []fleet.Project {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.projects.value
}

// Roles returns the roles of the project with exactly this name.
func (c *catalog) Roles(ctx context.Context, project string) ([]fleet.Role, error) {
	c.mu.Lock()
	old, epoch := c.roles[project], c.epoch
	c.mu.Unlock()
	if c.fresh(old.at) {
		return old.value, nil
	}
	got, err := c.place.Roles(ctx, project)
	if err != nil {
		if !old.at.IsZero() && fleet.ReasonOf(err) == fleet.ReasonBackendUnavailable {
			return old.value, nil
		}
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.epoch == epoch {
		c.roles[project] = cached[[]fleet.Role]{got, c.now()}
	}
	return got, nil
}

// Role returns the project's role with the name. If name is empty, it returns the project's default role, or else its first
// role.
func (c *catalog) Role(ctx context.Context, project, name string) (fleet.Role, error) {
	all, err := c.Roles(ctx, project)
	if err != nil {
		return fleet.Role{}, err
	}
	return fleet.FindRole(all, project, name)
}
