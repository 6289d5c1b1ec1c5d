package local

import (
	"context"
	"os"
	"path/filepath"

	"fleet/internal/fleet"
	"fleet/internal/runner"
)

// inspectHome returns the workspace of the agent whose home is h. onModel reports whether the agent is an agent on a model. If
// the configuration prevents the agent from accepting tasks, the workspace has the reason.
func (p *Place) inspectHome(h home) (w fleet.Workspace, onModel bool) {
	w, r := h.inspect()
	if onModel = r != nil && r.Config != nil; onModel || w.State == fleet.StateDeleted || w.State == fleet.StateDeleting {
		return w, onModel
	}
	if w.Host.ClosedReason = p.closedReason(w.Project, w.Role); w.Host.ClosedReason != "" && w.Reason == "" {
		w.Reason = w.Host.ClosedReason
	}
	w.Host.Credential = p.Credential(w.Project)
	return w, false
}

// Inspect implements fleet.Place.
func (p *Place) Inspect(ctx context.Context, a fleet.Agent) (fleet.Workspace, error) {
	if err := ctx.Err(); err != nil {
		return fleet.Workspace{}, err
	}
	w, _ := p.inspectHome(p.home(a.UID))
	return w, nil
}

// List implements fleet.Place. ModelPlace lists the agents on models.
func (p *Place) List(ctx context.Context) ([]fleet.Workspace, error) { return p.list(ctx, false) }

// list returns the workspaces of the agents on models if models is true, and otherwise the workspaces of the other agents.
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
		w, onModel := p.inspectHome(home(filepath.Join(p.config.Dir, "agents", e.Name())))
		if w.State != fleet.StateDeleted && onModel == models { // the agent may have been deleted after the directory was read
			all = append(all, w)
		}
	}
	return all, nil
}
