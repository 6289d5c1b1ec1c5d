package fake

import (
	"context"
	"slices"
	"time"

	"fleet/internal/fleet"
)

// keptRetention is the time between KeptAt and Until of kept workspaces. Nothing is removed when it is over.
const keptRetention = 7 * 24 * time.Hour

// KeptWork returns the workspaces that Delete has kept for the agent with the uid, or for all agents if the uid is empty. The oldest
// comes first.
func (p *Place) KeptWork(ctx context.Context, uid string) (all []fleet.KeptWork, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.keptWorkspaces {
		if uid == "" || uid == w.AgentUID {
			all = append(all, fleet.KeptWork{
				AgentUID: w.AgentUID, AgentName: w.Name, Owner: w.Owner, Project: w.Project, Reason: w.keepReason,
				Location: w.Location, Size: 4096, KeptAt: w.keptAt, Until: w.keptAt.Add(keptRetention),
			})
		}
	}
	return all, ctx.Err()
}

// UnsavedWork returns the reason that KeepOnDelete has set for the agent's workspace, or UNIMPLEMENTED if it has set none.
func (p *Place) UnsavedWork(_ context.Context, a fleet.Agent) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.workspaceOf(a); w != nil && w.keepReason != "" {
		return w.keepReason, nil
	}
	return "", fleet.Errorf(fleet.ReasonUnimplemented, "the world knows nothing about the work of agent %q", a.Name)
}

// restore brings the agent's kept workspace back in the state stopped. It returns nil if none is kept. The world's mutex must be held.
func (p *Place) restore(a fleet.Agent) *workspace {
	i := slices.IndexFunc(p.keptWorkspaces, func(w *workspace) bool { return w.AgentUID == a.UID })
	if i < 0 {
		return nil
	}
	w := p.keptWorkspaces[i]
	p.keptWorkspaces = slices.Delete(p.keptWorkspaces, i, i+1)
	w.State, w.keepReason = fleet.StateStopped, ""
	p.workspaces, p.byID[w.ID], p.byUID[w.AgentUID] = append(p.workspaces, w), w, w
	return w
}
