package coder

import (
	"context"
	"sync"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"
)

const (
	// lookupThreshold is how many workspaces are looked up one by one within lookupWindow. For further lookups, Fleet
	// lists all workspaces with one request.
	lookupThreshold = 20
	lookupWindow    = 2 * time.Second
	maxListAge      = 2 * time.Second // a list is used for this time
)

// listCache caches a list of all workspaces. It saves requests when there are many lookups, for example after many agents
// were created.
type listCache struct {
	mu               sync.Mutex
	lookups          []time.Time             // times of the latest lookups of single workspaces
	buildRequestedAt map[uuid.UUID]time.Time // when a build of each workspace was last requested; an older list does not show the current state of the workspace

	listMu   sync.Mutex // held while listing
	listedAt time.Time  // when the list was requested
	byID     map[uuid.UUID]codersdk.Workspace
}

// recordBuildRequest records that a build of the workspace was requested at the time now.
func (l *listCache) recordBuildRequest(id uuid.UUID, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.buildRequestedAt) > 1000 {
		for id, requestedAt := range l.buildRequestedAt {
			if now.Sub(requestedAt) > time.Minute {
				delete(l.buildRequestedAt, id)
			}
		}
	}
	l.buildRequestedAt[id] = now
}

// lastBuildRequest returns when a build of the workspace was last requested. It returns the zero time if that is not recorded.
func (l *listCache) lastBuildRequest(id uuid.UUID) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buildRequestedAt[id]
}

// allowLookup reports whether one more workspace may be looked up, and if so, records the lookup. It returns false after lookupThreshold
// lookups within lookupWindow.
func (l *listCache) allowLookup(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	recent := l.lookups[:0]
	for _, lookedUpAt := range l.lookups {
		if now.Sub(lookedUpAt) < lookupWindow {
			recent = append(recent, lookedUpAt)
		}
	}
	l.lookups = recent
	if len(l.lookups) >= lookupThreshold {
		return false
	}
	l.lookups = append(l.lookups, now)
	return true
}

// findInList returns the workspace from the list of all workspaces. It returns nil if Config.Owner is not self, if there were
// few lookups, if the list does not have the workspace, or if the list is older than the last requested build of the
// workspace.
func (p *Place) findInList(ctx context.Context, id uuid.UUID) (*codersdk.Workspace, error) {
	c := &p.listCache
	if p.config.Owner != OwnerSelf || c.allowLookup(p.config.Now()) {
		return nil, nil
	}
	c.listMu.Lock()
	defer c.listMu.Unlock()
	now := p.config.Now()
	if now.Sub(c.listedAt) >= maxListAge {
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
	if !found || !c.listedAt.After(c.buildRequestedAt[id]) {
		return nil, nil
	}
	return &ws, nil
}
