package state

import (
	"context"
	"sync"
	"time"

	"fleet/internal/fleet"
)

// catalogTTL is how long projects and roles are cached.
const catalogTTL = 10 * time.Second

// catalog caches a place's projects and roles. So a check of a name usually needs no round trip, and reads work while the place
// does not answer.
type catalog struct {
	place fleet.Place
	now   func() time.Time

	mu       sync.Mutex
	epoch    int // counts the calls of Invalidate
	projects cacheEntry[[]fleet.Project]
	roles    map[string]cacheEntry[[]fleet.Role]
}

type cacheEntry[T any] struct {
	value T
	at    time.Time // when the place was asked; zero if the cache has no value
}

func newCatalog(p fleet.Place, now func() time.Time) *catalog {
	return &catalog{place: p, now: now, roles: map[string]cacheEntry[[]fleet.Role]{}}
}

// Projects returns the projects, by name.
func (c *catalog) Projects(ctx context.Context) ([]fleet.Project, error) {
	return lookUp(c, func() cacheEntry[[]fleet.Project] { return c.projects },
		func() ([]fleet.Project, error) { return c.place.Projects(ctx) }, func(e cacheEntry[[]fleet.Project]) { c.projects = e })
}

// lookUp returns the cached value if it is fresh, and otherwise asks the place. If the place does not answer, lookUp returns the old
// value, if there is one. load and store access the cache with the lock held.
func lookUp[T any](c *catalog, load func() cacheEntry[T], ask func() (T, error), store func(cacheEntry[T])) (value T, err error) {
	c.mu.Lock()
	old, epoch := load(), c.epoch
	c.mu.Unlock()
	known := !old.at.IsZero()
	if known && c.now().Sub(old.at) < catalogTTL {
		return old.value, nil
	}
	got, err := ask()
	if err != nil {
		if known && fleet.ReasonOf(err) == fleet.ReasonBackendUnavailable {
			return old.value, nil
		}
		return value, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.epoch == epoch {
		store(cacheEntry[T]{got, c.now()})
	}
	return got, nil
}

// Invalidate makes the next calls ask the place, because its projects have changed.
func (c *catalog) Invalidate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch++
	c.projects, c.roles = cacheEntry[[]fleet.Project]{}, map[string]cacheEntry[[]fleet.Role]{}
}

// lastProjects returns the projects that the place listed last; nil if it has listed none since Invalidate.
func (c *catalog) lastProjects() []fleet.Project {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.projects.value
}

// Roles returns the roles of the project with exactly this name.
func (c *catalog) Roles(ctx context.Context, project string) ([]fleet.Role, error) {
	return lookUp(c, func() cacheEntry[[]fleet.Role] { return c.roles[project] },
		func() ([]fleet.Role, error) { return c.place.Roles(ctx, project) }, func(e cacheEntry[[]fleet.Role]) { c.roles[project] = e })
}

// Role returns the project's role with the name. If name is empty, Role returns the default role or, if there is none, the first
// role.
func (c *catalog) Role(ctx context.Context, project, name string) (fleet.Role, error) {
	all, err := c.Roles(ctx, project)
	if err != nil {
		return fleet.Role{}, err
	}
	return fleet.FindRole(all, project, name)
}
