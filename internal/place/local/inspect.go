package local

import (
	"context"
	"os"
	"path/filepath"

	"fleet/internal/fleet"
	"fleet/internal/runner"
)

// workspace returns the workspace of the agent with the home.
func (p *Place) workspace(h home) (fleet.Workspace, error) {
	w, _, err := p.inspectHome(h)
	return w, err
}

// inspectHome returns the workspace of the agent with the home, and whether the agent is an agent on a model. If the agent accepts no
// tasks because of the configuration, the workspace says why.
func (p *Place) inspectHome(h home) (w fleet.Workspace, onModel bool, err error) {
	w, r, err := h.workspace()
	if onModel = r != nil && r.Config != nil; onModel || err != nil || w.State == fleet.StateDeleted || w.State == fleet.StateDeleting {
		return w, onModel, err
	}
	if w.Host.ClosedReason = p.closedReason(w.Project, w.Role); w.Host.ClosedReason != "" && w.Reason == "" {
		w.Reason = w.Host.ClosedReason
	}
	w.Host.Credential = p.Credential(w.Project)
	return w, false, nil
}

// Inspect implements fleet.Place.
func (p *Place) Inspect(ctx context.Context, a fleet.Agent) (fleet.Workspace, error) {
	if err := ctx.Err(); err != nil {
		return fleet.Workspace{}, err
	}
	return p.workspace(p.home(a.UID))
}

// List implements fleet.Place. ModelPlace lists the agents on models.
func (p *Place) List(ctx context.Context) ([]fleet.Workspace, error) { return p.list(ctx, false) }

// list returns the workspaces of the agents on models, or of the others.
func (p *Place) list(ctx context.Context, models bool) ([]fleet.Workspace, error) {
	entries, err := os.ReadDir(filepath.Join(p.config.Dir, "agents"))
	if err != nil {
		return nil, runner.HostError("cannot read the directory of agents", err)
	}
	all := make([]fleet.Workspace, 0, len(entries))
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !e.IsDir() || e.Name()[0] == '.' {
			continue
		}
		w, onModel, err := p.inspectHome(home(filepath.Join(p.config.Dir, "agents", e.Name())))
		if err != nil {
			return nil, err
		}
		if w.State != fleet.StateDeleted && onModel == models { // the agent may have been deleted after the directory was read
			all = append(all, w)
		}
	}
	return all, nil
}
