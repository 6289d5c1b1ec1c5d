package coder

import (
	"context"
	"sync"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"
)

const (
	// batchThreshold is how many workspaces may be looked at one by one within batchWindow; when it is more, one list of all
	// answers for each of them.
	batchThreshold = 20
	batchWindow    = 2 * time.Second
)

// batch is the list that answers when many workspaces are looked at at a time, as after many were made.
type batch struct {
	mu      sync.Mutex
	looks   []time.Time             // of the newest looks at single workspaces
	changed map[uuid.UUID]time.Time // when a build of a workspace was asked for: what is older does not count

	list sync.Mutex // held by who lists
	at   time.Time  // when the list was asked for
	byID map[uuid.UUID]codersdk.Workspace
}

func (c *batch) init() { c.changed = map[uuid.UUID]time.Time{} }

// wrote notes that the workspace changes.
func (c *batch) wrote(id uuid.UUID, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.changed) > 1000 {
		for id, at := range c.changed {
			if now.Sub(at) > time.Minute {
				delete(c.changed, id)
			}
		}
	}
	c.changed[id] = now
}

// tooMany notes a look at a workspace, and says whether there are too many of them.
func (c *batch) tooMany(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	fresh := c.looks[:0]
	for _, at := range c.looks {
		if now.Sub(at) < batchWindow {
			fresh = append(fresh, at)
		}
	}
	c.looks = fresh
	if len(c.looks) >= batchThreshold {
		return true
	}
	c.looks = append(c.looks, now)
	return false
}

// fromList returns the workspace from a list of all, when so many are looked at that this is cheaper, and the list is
// not older than what is known of the workspace.
func (b *Place) fromList(ctx context.Context, id uuid.UUID) (*codersdk.Workspace, error) {
	c := &b.batch
	if b.config.Owner != OwnerSelf || !c.tooMany(b.config.Now()) {
		return nil, nil
	}
	c.list.Lock()
	defer c.list.Unlock()
	now := b.config.Now()
	if now.Sub(c.at) >= batchWindow {
		all, err := ask(ctx, "listing Coder's workspaces", func(ctx context.Context) (codersdk.WorkspacesResponse, error) {
			return b.self.sdk.Workspaces(ctx, codersdk.WorkspaceFilter{Owner: codersdk.Me})
		})
		if err != nil {
			return nil, err
		}
		c.at, c.byID = now, make(map[uuid.UUID]codersdk.Workspace, len(all.Workspaces))
		for _, ws := range all.Workspaces {
			c.byID[ws.ID] = ws
		}
	}
	ws, there := c.byID[id]
	c.mu.Lock()
	defer c.mu.Unlock()
	if !there || !c.at.After(c.changed[id]) {
		return nil, nil
	}
	return &ws, nil
}
