//go:build cgo

package cagent

import (
	"context"
	"os"
	"path/filepath"

	"fleet/internal/fleet"
	"fleet/internal/runner"
	"fleet/internal/runner/worktree"
)

// Provision implements fleet.Place.
func (b *Place) Provision(ctx context.Context, a fleet.Agent) (fleet.Workspace, error) {
	if err := ctx.Err(); err != nil {
		return fleet.Workspace{}, err
	}
	if x := b.agent(a.UID); x != nil {
		return x.workspace(), nil
	}
	rec := &record{UID: a.UID, Name: a.Name, Owner: a.Owner, Project: a.Project, Role: a.Role, Spec: a.Spec, Config: a.Config, CreatedAt: b.config.Now()}
	if err := b.complete(ctx, rec); err != nil {
		return fleet.Workspace{}, err
	}
	if err := b.place(ctx, rec); err != nil {
		return fleet.Workspace{}, err
	}
	dir := filepath.Join(b.config.Dir, "agents")
	made, err := os.MkdirTemp(dir, ".new-")
	if err != nil {
		return fleet.Workspace{}, hostError("cannot create the agent's directory", err)
	}
	h := home(filepath.Join(dir, runner.FileName(a.UID)))
	err = home(made).fill(rec)
	b.mu.Lock()
	defer b.mu.Unlock()
	if x := b.agents[a.UID]; x != nil {
		_ = os.RemoveAll(made)
		return x.workspace(), nil
	}
	if err == nil {
		err = os.Rename(made, string(h))
	}
	if err == nil && rec.Config.Dir != "" {
		err = rec.makeWork(rec.Config.Dir)
	}
	x := &member{home: h, rec: rec}
	if err == nil {
		err = x.createDirs()
	}
	if err != nil {
		_ = os.RemoveAll(made)
		return fleet.Workspace{}, hostError("cannot create the agent's directory", err)
	}
	b.agents[a.UID] = x
	h.log(rec.CreatedAt, "the agent was created")
	return x.workspace(), nil
}

// workingCopyAgent returns the agent that Places receives for the working copy. Its UID differs from the agent's own
// UID.
func workingCopyAgent(uid, name, owner, project string) fleet.Agent {
	return fleet.Agent{UID: "place-" + uid, Name: name, Owner: owner, Project: project}
}

// place creates the agent's working copy and sets rec.Config.Dir to it. It does nothing if the agent needs no working
// copy.
func (b *Place) place(ctx context.Context, rec *record) error {
	if !hasWorkingCopy(rec.Config) {
		return nil
	}
	if b.config.Places == nil {
		return fleet.Errorf(fleet.ReasonProvisioningFailed, "this server has no projects for the agent")
	}
	w, err := b.config.Places.Provision(ctx, workingCopyAgent(rec.UID, rec.Name, rec.Owner, rec.Project))
	if err != nil {
		return err
	}
	agentConfig := *rec.Config // a copy, because the caller owns the configuration
	agentConfig.Dir = w.Location
	rec.Config = &agentConfig
	return nil
}

// fill creates the contents of a home.
func (h home) fill(rec *record) error {
	for _, dir := range []string{"work", "runs"} {
		if err := os.Mkdir(h.path(dir), 0o700); err != nil {
			return err
		}
	}
	return h.write("agent.json", rec)
}

// complete validates the agent's configuration. If the agent has none, complete sets a configuration with the
// definition of its project.
func (b *Place) complete(ctx context.Context, rec *record) error {
	switch {
	case rec.Config != nil && rec.Config.Driver != "" && rec.Config.Driver != Driver:
		return fleet.Errorf(fleet.ReasonProvisioningFailed, "there is no driver %q here: use %s", clip(rec.Config.Driver, 60), Driver)
	case rec.Config == nil || rec.Config.Driver == "":
		document, d, err := b.project(ctx, rec.Project)
		if err != nil {
			return fleet.Errorf(fleet.ReasonProvisioningFailed, "%s", fleet.PublicMessage(err)).WithCause(err)
		}
		name, err := d.agent(rec.Role)
		if err != nil {
			return fleet.Errorf(fleet.ReasonProvisioningFailed, "%v", err)
		}
		reports := rec.Config != nil && rec.Config.Reports
		rec.Config = &fleet.AgentConfig{Driver: Driver, Document: document, Agent: name, Reports: reports}
		return nil
	}
	d, err := parse([]byte(rec.document()))
	if err == nil {
		_, err = d.agent(rec.Config.Agent)
	}
	if err != nil {
		return fleet.Errorf(fleet.ReasonProvisioningFailed, "invalid agent definition: %v", err)
	}
	return nil
}

// workspace returns the state of the agent's workspace.
func (x *member) workspace() fleet.Workspace {
	x.mu.Lock()
	defer x.mu.Unlock()
	w := fleet.Workspace{
		ID: x.rec.UID, State: fleet.StateRunning, Location: x.rec.work(x.home), AgentUID: x.rec.UID, Name: x.rec.Name, Owner: x.rec.Owner,
		Project: x.rec.Project, Role: x.rec.Role, Spec: x.rec.Spec, CreatedAt: x.rec.CreatedAt,
	}
	switch {
	case x.gone:
		w.State = fleet.StateDeleted
	case x.stopped:
		w.State = fleet.StateStopped
	}
	return w
}

// Inspect implements fleet.Place.
func (b *Place) Inspect(ctx context.Context, a fleet.Agent) (fleet.Workspace, error) {
	if err := ctx.Err(); err != nil {
		return fleet.Workspace{}, err
	}
	if x := b.agent(a.UID); x != nil {
		return x.workspace(), nil
	}
	return fleet.Workspace{ID: a.WorkspaceID, AgentUID: a.UID, State: fleet.StateDeleted}, nil
}

// List implements fleet.Place.
func (b *Place) List(ctx context.Context) ([]fleet.Workspace, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	members := b.members()
	all := make([]fleet.Workspace, 0, len(members))
	for _, x := range members {
		all = append(all, x.workspace())
	}
	return all, nil
}

// Start implements fleet.Place.
func (b *Place) Start(ctx context.Context, a fleet.Agent) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	x := b.agent(a.UID)
	if x == nil {
		return fleet.Errorf(fleet.ReasonAgentOffline, "agent %q has no workspace", a.Name)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.stopped {
		return nil
	}
	if err := os.Remove(x.home.path("stopped")); err != nil && !os.IsNotExist(err) {
		return hostError("cannot start the agent", err)
	}
	x.stopped = false
	x.home.log(b.config.Now(), "started")
	return nil
}

// Stop implements fleet.Place.
func (b *Place) Stop(ctx context.Context, a fleet.Agent) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	x := b.agent(a.UID)
	if x == nil {
		return nil
	}
	x.mu.Lock()
	if !x.stopped {
		if err := writeFile(x.home.path("stopped"), nil); err != nil {
			x.mu.Unlock()
			return hostError("cannot stop the agent", err)
		}
		x.stopped = true
		x.home.log(b.config.Now(), "stopped")
	}
	x.mu.Unlock()
	return b.host.End(ctx, runner.Home(x.home), "its workspace was stopped")
}

// Delete implements fleet.Place.
func (b *Place) Delete(ctx context.Context, a fleet.Agent) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	x := b.agent(a.UID)
	if x == nil {
		return b.removeWorkingCopy(ctx, a)
	}
	x.mu.Lock()
	x.stopped = true // from now on, it accepts no runs
	x.mu.Unlock()
	if err := b.host.End(ctx, runner.Home(x.home), "its agent was deleted"); err != nil {
		return "", err
	}
	kept, err := b.removeWorkingCopy(ctx, a)
	if err != nil {
		return "", err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	gone := filepath.Join(b.config.Dir, "agents", ".gone-"+runner.FileName(a.UID))
	err = os.Rename(string(x.home), gone) // so that a partly deleted agent is never loaded
	if err == nil || os.IsNotExist(err) {
		err = worktree.RemoveAll(gone) // programs may have left read-only directories
	}
	if err != nil {
		return "", hostError("cannot remove the agent's directory", err)
	}
	x.mu.Lock()
	x.gone = true
	x.mu.Unlock()
	delete(b.agents, a.UID)
	return kept, nil
}

// removeWorkingCopy removes the agent's working copy, if it has one. kept describes the work that was kept.
func (b *Place) removeWorkingCopy(ctx context.Context, a fleet.Agent) (kept string, err error) {
	if !hasWorkingCopy(a.Config) || b.config.Places == nil {
		return "", nil
	}
	return b.config.Places.Delete(ctx, workingCopyAgent(a.UID, a.Name, a.Owner, a.Project))
}
