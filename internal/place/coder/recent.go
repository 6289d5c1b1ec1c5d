package coder

import (
	"context"
	"sync"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"

	"fleet/internal/fleet"
)

// recentPolls is the number of poll intervals for which a workspace counts as recently seen. In this time, Fleet calls its runner
// without requesting the workspace again.
const recentPolls = 2

// recentWorkspaces remembers the workspaces as Coder last showed them, so that a task needs no request for its workspace.
type recentWorkspaces struct {
	mu   sync.Mutex
	byID map[uuid.UUID]recentWorkspace
}

// recentWorkspace is a workspace as Coder showed it to the request that was sent at seenAt.
type recentWorkspace struct {
	ws     codersdk.Workspace
	seenAt time.Time
}

func (r *recentWorkspaces) record(ws codersdk.Workspace, seenAt time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byID[ws.ID] = recentWorkspace{ws, seenAt}
}

// get returns the workspace as Coder last showed it, and whether Coder has shown it.
func (r *recentWorkspaces) get(id uuid.UUID) (recentWorkspace, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, ok := r.byID[id]
	return w, ok
}

func (r *recentWorkspaces) forget(id uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byID, id)
}

// retain keeps only the workspaces in the set.
func (r *recentWorkspaces) retain(ids map[uuid.UUID]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.byID {
		if !ids[id] {
			delete(r.byID, id)
		}
	}
}

// findRecent returns the agent's workspace if Coder has recently shown that it runs with a fleet-runner, and Fleet has not
// requested a build since then. Otherwise it returns nil. The caller may only conclude that it can try the runner, because
// somebody may have stopped the workspace since then.
func (p *Place) findRecent(ctx context.Context, a fleet.Agent) *workspace {
	id, isKnown := p.index.workspace(a.UID)
	if !isKnown || a.WorkspaceID != "" && a.WorkspaceID != id.String() {
		return nil
	}
	last, isRecent := p.recent.get(id)
	if !isRecent || p.config.Now().Sub(last.seenAt) > recentPolls*p.config.PollInterval || !last.seenAt.After(p.listCache.lastBuildRequest(id)) {
		return nil
	}
	me, err := p.whoami(ctx) // Coder is asked only once for the user of a token
	if err != nil || p.config.Owner == OwnerSelf && last.ws.OwnerID != me.ID {
		return nil
	}
	acc, err := p.accountOf(last.ws.OwnerID.String(), me)
	if err != nil {
		return nil
	}
	w := p.workspace(last.ws, acc)
	if last.ws.LatestBuild.Status != codersdk.WorkspaceStatusRunning || !w.hasRunner() {
		return nil
	}
	return w
}
