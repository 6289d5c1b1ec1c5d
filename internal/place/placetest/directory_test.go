package placetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"fleet/internal/fleet"
	"fleet/internal/runner"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/shim"
)

// directory is the example of docs/extend/place.md. It is a place that gives each agent a directory on this machine,
// and runs its tasks there as shell scripts.
//
// The directory of an agent contains the record agent.json, which is written last, the directory work, in which tasks
// run, and the files that runner.Home describes. While the agent is stopped, it also contains the file stopped.
type directory struct {
	root  string // contains only the directories of agents
	shell driver.Driver
	host  *runner.Host
}

// newDirectory returns a place that keeps its agents in the directory root, which must exist. program is a program
// whose main calls runner.Main.
func newDirectory(root, program string) (*directory, error) {
	shell, err := driver.New(driver.Options{Kind: "shell"})
	return &directory{root, shell, runner.New(runner.Config{Program: program})}, err
}

// Traits implements fleet.Place. The only optional feature is Output.
func (d *directory) Traits() fleet.Traits {
	return fleet.Traits{Name: "directory", SupportsOutput: true}
}

// Projects implements fleet.Place.
func (d *directory) Projects(ctx context.Context) ([]fleet.Project, error) {
	return []fleet.Project{{Name: "scripts", Description: "Tasks are shell scripts"}}, ctx.Err()
}

// Roles implements fleet.Place.
func (d *directory) Roles(ctx context.Context, project string) ([]fleet.Role, error) {
	if project != "scripts" {
		return nil, fleet.Errorf(fleet.ReasonProjectNotFound, "project %q not found: the only project is scripts", project)
	}
	return []fleet.Role{{Name: "worker", Default: true}}, ctx.Err()
}

func (d *directory) path(a fleet.Agent, name ...string) string {
	return filepath.Join(append([]string{d.root, runner.FileName(a.UID)}, name...)...)
}

// Provision implements fleet.Place. It writes the record last, so that an agent with a record is complete. Another call after an
// interrupted one repeats all steps.
func (d *directory) Provision(ctx context.Context, a fleet.Agent) (fleet.Workspace, error) {
	if a.Project != "scripts" || a.Config != nil {
		return fleet.Workspace{}, fleet.Errorf(fleet.ReasonProvisioningFailed, "project %q not found: the only project is scripts", a.Project)
	}
	w := fleet.Workspace{
		ID: a.UID, AgentUID: a.UID, Location: d.path(a, "work"), State: fleet.StateRunning,
		Name: a.Name, Owner: a.Owner, Project: a.Project, Role: a.Role, Spec: a.Spec,
	}
	record, err := json.Marshal(w)
	if err == nil {
		err = errors.Join(ctx.Err(), runner.Home(d.path(a)).Make(), os.MkdirAll(d.path(a, "work"), 0o700))
	}
	if err == nil {
		err = shim.WriteFile(d.path(a, "agent.json"), record) // writes the whole file, or none
	}
	if err != nil {
		return fleet.Workspace{}, runner.HostError("cannot create the agent's directory", err)
	}
	return d.Inspect(ctx, a)
}

// Start implements fleet.Place.
func (d *directory) Start(ctx context.Context, a fleet.Agent) error {
	err := os.Remove(d.path(a, "stopped"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return runner.HostError("cannot start the agent", err)
	}
	return ctx.Err()
}

// Stop implements fleet.Place. It writes the file stopped before it ends the run, so that no new run begins.
func (d *directory) Stop(ctx context.Context, a fleet.Agent) error {
	err := ctx.Err()
	if err == nil {
		err = os.WriteFile(d.path(a, "stopped"), nil, 0o600)
	}
	if errors.Is(err, fs.ErrNotExist) { // the agent does not exist
		return nil
	}
	if err != nil {
		return runner.HostError("cannot stop the agent", err)
	}
	return d.host.End(ctx, runner.Home(d.path(a)), "its agent was stopped")
}

// Delete implements fleet.Place. It keeps no work.
func (d *directory) Delete(ctx context.Context, a fleet.Agent) (kept string, err error) {
	if err := d.Stop(ctx, a); err != nil {
		return "", err
	}
	trash, err := os.MkdirTemp(filepath.Dir(d.root), "deleted-*")
	if err == nil {
		err = os.Rename(d.path(a), filepath.Join(trash, "agent")) // atomic, so that no other call finds a part of the directory
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // an earlier call has deleted the agent
	}
	if err = errors.Join(err, os.RemoveAll(trash)); err != nil {
		return "", runner.HostError("cannot remove the agent's directory", err)
	}
	return "", nil
}

// Inspect implements fleet.Place.
func (d *directory) Inspect(ctx context.Context, a fleet.Agent) (w fleet.Workspace, err error) {
	if err := ctx.Err(); err != nil {
		return w, err
	}
	record, err := os.ReadFile(d.path(a, "agent.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return fleet.Workspace{ID: a.UID, AgentUID: a.UID, State: fleet.StateDeleted}, nil
	}
	if err == nil {
		err = json.Unmarshal(record, &w)
	}
	if err != nil { // not returned, because List would then fail for all agents
		return fleet.Workspace{ID: a.UID, AgentUID: a.UID, State: fleet.StateUnhealthy, Reason: "its record cannot be read: delete the agent"}, nil
	}
	if _, err := os.Stat(d.path(a, "stopped")); err == nil {
		w.State = fleet.StateStopped
	}
	return w, nil
}

// List implements fleet.Place.
func (d *directory) List(ctx context.Context) (all []fleet.Workspace, err error) {
	entries, err := os.ReadDir(d.root)
	if err != nil {
		return nil, runner.HostError("cannot list the agents", err)
	}
	for _, e := range entries {
		w, err := d.Inspect(ctx, fleet.Agent{UID: e.Name()})
		if err != nil {
			return nil, err
		}
		if w.State != fleet.StateDeleted {
			all = append(all, w)
		}
	}
	return all, ctx.Err()
}

// Log implements fleet.Place.
func (d *directory) Log(ctx context.Context, a fleet.Agent, n int) (lines []string, truncated bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	return runner.Home(d.path(a)).Log(n)
}

// Connect implements fleet.Place.
func (d *directory) Connect(a fleet.Agent) fleet.Runner {
	return d.host.Agent(a.Name, runner.Home(d.path(a)), workspace{d, a})
}

// Close implements fleet.Place.
func (d *directory) Close() error {
	d.host.Close()
	return nil
}

// workspace implements runner.Workspace. It tells the host how to start an agent's program.
type workspace struct {
	place *directory
	agent fleet.Agent
}

// Ready implements runner.Workspace.
func (w workspace) Ready() error {
	ws, err := w.place.Inspect(context.Background(), w.agent)
	if err != nil {
		return err
	}
	return ws.CheckRunning(w.agent.Name)
}

// Work implements runner.Workspace.
func (w workspace) Work(fleet.Run) (runner.Work, error) {
	return runner.Work{
		Driver: w.place.shell, Dir: w.place.path(w.agent, "work"),
		Job: driver.Job{Agent: w.agent.Name, Project: w.agent.Project, Role: driver.Role{Name: w.agent.Role}, Spec: w.agent.Spec},
	}, nil
}

// Tree implements runner.Workspace. It returns nil, because the agents do not work in a repository.
func (w workspace) Tree() (*runner.Tree, error) { return nil, nil }
