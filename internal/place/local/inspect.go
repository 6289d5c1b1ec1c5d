package local

import (
	"context"
	"os"
	"path/filepath"

	"fleet/internal/fleet"
	"fleet/internal/runner"
)

// inspectHome is like home.inspect, and adds what follows from the configuration: the agent's credential and, if the agent accepts no
// tasks, the reason.
func (p *Place) inspectHome(h home) (fleet.Workspace, *record) {
	w, r := h.inspect()
	if r.isOnModel() || w.State == fleet.StateDeleted || w.State == fleet.StateDeleting {
		return w, r
	}
	if w.Host.ClosedReason = p.closedReason(w.Project, w.Role); w.Host.ClosedReason != "" && w.Reason == "" {
		w.Reason = w.Host.ClosedReason
	}
	w.Host.Credential = p.Credential(w.Project)
	return w, r
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
func (p *Place) List(ctx context.Context) ([]fleet.Workspace, error) {
	return p.list(ctx, (*record).isNotOnModel)
}

// list returns the workspaces of the agents for whose record accept returns true. It calls accept with nil for a record that does not
// exist or cannot be read.
func (p *Place) list(ctx context.Context, accept func(*record) bool) ([]fleet.Workspace, error) {
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
		w, r := p.inspectHome(home(filepath.Join(p.config.Dir, "agents", e.Name())))
		if w.State != fleet.StateDeleted && accept(r) { // the agent may have been deleted after the directory was read
			all = append(all, w)
		}
	}
	return all, nil
}
