package coder

import (
	"context"
	"sync"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"
)

const (
	// batchThreshold is how many workspaces are looked up one by one within batchWindow. For further lookups, Fleet
	// lists all workspaces with one request.
	batchThreshold = 20
	batchWindow    = 2 * time.Second
)

// batch caches a list of all workspaces. It saves requests when there are many lookups, for example after many agents
// were created.
type batch struct {
	mu      sync.Mutex
	lookups []time.Time             // times of the latest lookups of single workspaces
	changed map[uuid.UUID]time.Time // when a build of each workspace was last requested; an older list has an outdated state of that workspace

	listMu   sync.Mutex // held while listing
	listedAt time.Time  // when the list was requested
	byID     map[uuid.UUID]codersdk.Workspace
}

func (c *batch) init() { c.changed = map[uuid.UUID]time.Time{} }

// recordBuild records that a build of the workspace was requested at the time now.
func (c *batch) recordBuild(id uuid.UUID, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.changed) > 1000 {
		for id, changedAt := range c.changed {
			if now.Sub(changedAt) > time.Minute {
				delete(c.changed, id)
			}
		}
	}
	c.changed[id] = now
}

// changedAt returns when a build of the workspace was last requested.
func (c *batch) changedAt(id uuid.UUID) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed[id]
}

// exceedsLookups reports whether there were batchThreshold lookups within batchWindow. If not, it records one more lookup.
func (c *batch) exceedsLookups(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	recent := c.lookups[:0]
	for _, lookedUpAt := range c.lookups {
		if now.Sub(lookedUpAt) < batchWindow {
			recent = append(recent, lookedUpAt)
		}
	}
	c.lookups = recent
	if len(c.lookups) >= batchThreshold {
		return true
	}
	c.lookups = append(c.lookups, now)
	return false
}

// fromList returns the workspace from the list of all workspaces. It returns nil if Config.Owner is not self, if there
// are few lookups, if the list does not have the workspace, or if the list is older than the last requested build of
// the workspace.
func (p *Place) fromList(ctx context.Context, id uuid.UUID) (*codersdk.Workspace, error) {
	c := &p.batch
	if p.config.Owner != OwnerSelf || !c.exceedsLookups(p.config.Now()) {
		return nil, nil
	}
	c.listMu.Lock()
	defer c.listMu.Unlock()
	now := p.config.Now()
	if now.Sub(c.listedAt) >= batchWindow {
		all, err := callCoder(ctx, "listing Coder's workspaces", func(ctx context.Context) (codersdk.WorkspacesResponse, error) {
			return p.self.sdk.Workspaces(ctx, codersdk.WorkspaceFilter{Owner: codersdk.Me})
		})
		if err != nil {
			return nil, err
		}
		c.listedAt, c.byID = now, make(map[uuid.UUID]codersdk.Workspace, len(all.Workspaces))
		for _, ws := range all.Workspaces {
			c.byID[ws.ID] = ws
		}
	}
	ws, found := c.byID[id]
	c.mu.Lock()
	defer c.mu.Unlock()
	if !found || !c.listedAt.After(c.changed[id]) {
		return nil, nil
	}
	return &ws, nil
}
