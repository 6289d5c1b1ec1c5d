//go:build cgo

package cagent

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"

	"fleet/internal/fleet"
	"fleet/internal/runner"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/sandbox"
)

// jobFile is the name of the file in a run's directory that Main reads as its standard input.
const jobFile = "model.json"

// job is the input of Main.
type job struct {
	Task   task   `json:"task"`
	Config Config `json:"config"`
	Home   string `json:"home,omitempty"` // home of the server's user, if the definition uses the user's skills
}

// workspace implements runner.Workspace.
type workspace struct {
	place  *Place
	agent  fleet.Agent
	member *member // nil if the agent does not exist
}

// Ready implements runner.Workspace.
func (w workspace) Ready() error {
	if w.member == nil {
		return fleet.Errorf(fleet.ReasonAgentOffline, "agent %q has no workspace", w.agent.Name)
	}
	w.member.mu.Lock()
	defer w.member.mu.Unlock()
	if w.member.stopped || w.member.gone {
		return fleet.Errorf(fleet.ReasonAgentOffline, "agent %q is stopped", w.agent.Name)
	}
	return nil
}

// Tree implements runner.Workspace.
func (workspace) Tree() (*runner.Tree, error) { return nil, nil }

// Work implements runner.Workspace.
func (w workspace) Work(r fleet.Run) (runner.Work, error) {
	b, x := w.place, w.member
	t, err := b.task(x, r)
	if err != nil {
		return runner.Work{}, hostError("cannot prepare the agent's memories", err)
	}
	if err := x.rec.makeWork(t.Work); err != nil {
		return runner.Work{}, hostError("cannot use the agent's directory", err)
	}
	d, err := parse([]byte(x.rec.document()))
	if err != nil {
		return runner.Work{}, fleet.Errorf(fleet.ReasonProvisioningFailed, "invalid agent definition: %v", err)
	}
	policy, err := b.confine(w.agent, x, t, d)
	if err != nil {
		return runner.Work{}, err
	}
	if err := runner.Equip(context.Background(), x.home.path("home"), runner.GitFiles(b.gitEnviron(), w.agent.Name, runner.Author{})); err != nil {
		return runner.Work{}, err
	}
	user := b.skills(d)
	if policy != nil && user != "" {
		for _, dir := range skillDirs {
			policy.Read = append(policy.Read, filepath.Join(user, dir))
		}
	}
	return runner.Work{
		Driver: processDriver{job{t, b.config, user}}, Dir: t.Work, Sandbox: policy,
		Job:     driver.Job{TaskID: r.TaskID, Agent: w.agent.Name, Project: w.agent.Project, Prompt: r.Prompt, Role: driver.Role{MCPServers: programs(d, x.rec.Config)}},
		Environ: func(own map[string]string) []string { return b.processEnviron(x, d, r.Options.Model, own) },
	}, nil
}

// task returns the input for a run of the agent.
func (b *Place) task(x *member, r fleet.Run) (task, error) {
	memory, err := b.memory(x)
	return task{Record: x.rec, ID: r.TaskID, Timeout: r.Timeout, Work: x.rec.work(x.home), State: x.state(), Memory: memory, Options: r.Options}, err
}

// processDriver is the driver of runs in their own processes.
type processDriver struct{ job job }

// Program implements driver.Driver.
func (p processDriver) Program() string { return p.job.Config.RunCommand[0] }

// Keys implements driver.Driver. It returns no names, because processEnviron passes the variables with keys.
func (processDriver) Keys() []string { return nil }

// Command implements driver.Driver.
func (p processDriver) Command(driver.Job) (driver.Command, error) {
	data, err := json.Marshal(p.job)
	if err != nil {
		return driver.Command{}, err
	}
	return driver.Command{
		Argv: slices.Clone(p.job.Config.RunCommand), SplitStderr: true, StdinFile: jobFile,
		Files:  []driver.File{{Name: jobFile, Data: string(data), Secret: true}}, // the headers of tools may hold secrets
		Format: driver.Format{Kind: "outputs"},
	}, nil
}

// confine returns the sandbox policy for a run of the agent, or nil if the run is not confined. The policy allows the
// network, which models need. A run that touches nothing on this machine needs no sandbox, so it also begins where there is none.
func (b *Place) confine(a fleet.Agent, x *member, t task, d *definition) (*sandbox.Policy, error) {
	programs := startsPrograms(d, x.rec.Config)
	own := []string{string(t.State), string(t.Memory), x.home.path("home"), x.home.path("tmp"), t.Work}
	if hasWorkingCopy(x.rec.Config) && b.config.Places != nil {
		p, err := b.config.Places.Reach(workingCopyAgent(a.UID, a.Name, a.Owner, a.Project))
		if err != nil || p == nil {
			return nil, err
		}
		if p.Network != "" && p.Network != sandbox.Full && programs != "" {
			return nil, fleet.Errorf(fleet.ReasonProvisioningFailed,
				"the agent starts programs (%s), which would get the full network access of its model, but the "+
					"project %q allows only network: %s; use a project with network: full",
				programs, a.Project, p.Network.Kind())
		}
		p.Network = sandbox.Full
		p.Write = append(slices.Clone(p.Write), own...)
		return p, nil
	}
	mode, err := sandbox.Choose(b.config.Sandbox, sandbox.Full)
	if err != nil && !touchesMachine(d, x.rec.Config) {
		return nil, nil
	}
	if err != nil {
		return nil, fleet.Errorf(fleet.ReasonProvisioningFailed,
			"the agent cannot be confined as the server's configuration requires: %s", err)
	}
	if mode == sandbox.None {
		return nil, nil
	}
	if x.rec.named() && b.config.Places != nil {
		if err := b.config.Places.CheckDir(t.Work); err != nil {
			return nil, err
		}
	}
	return &sandbox.Policy{
		Write: slices.Concat(own, b.config.Write), Read: slices.Concat(sandbox.System(), b.config.Read), Mounts: true, Hide: b.config.Hide,
	}, nil
}

// Unconfined implements fleet.Confiner. It returns "" for an agent without programs, because its tools restrict it to
// its directory.
func (b *Place) Unconfined(a fleet.Agent) string {
	rec := &record{UID: a.UID, Config: a.Config}
	if x := b.agent(a.UID); x != nil {
		rec = x.rec
	} else if a.Config == nil || a.Config.Driver == "" {
		document, _, err := b.project(context.Background(), a.Project)
		if err != nil {
			return "" // without a project, nothing can run
		}
		rec.Config = &fleet.AgentConfig{Driver: Driver, Document: document}
	}
	why := b.unconfined(a, rec)
	if why == "" {
		return ""
	}
	if d, err := parse([]byte(rec.document())); err != nil || startsPrograms(d, rec.Config) == "" {
		return ""
	}
	return why
}

// unconfined returns why programs of the agent are not confined, or "" if they are confined.
func (b *Place) unconfined(a fleet.Agent, rec *record) string {
	if hasWorkingCopy(rec.Config) && b.config.Places != nil {
		return b.config.Places.Unconfined(workingCopyAgent(a.UID, a.Name, a.Owner, a.Project))
	}
	mode, err := sandbox.Choose(b.config.Sandbox, sandbox.Full)
	switch {
	case err != nil:
		return fleet.PublicMessage(err)
	case mode != sandbox.None:
		return ""
	}
	if err := sandbox.Available(); err != nil {
		return fleet.PublicMessage(err)
	}
	return "the configuration has sandbox: none; the operator can change it to auto"
}

// programs returns the programs in the definition and the configuration, so that the sandbox allows reading their
// files. It returns them as MCP servers, because the runner accepts programs in that form.
func programs(d *definition, r *fleet.AgentConfig) map[string]driver.MCPServer {
	all := map[string]driver.MCPServer{}
	add := func(command string) {
		if command != "" {
			all[command] = driver.MCPServer{Command: command}
		}
	}
	for _, a := range d.config.Agents {
		for _, t := range a.Toolsets {
			add(t.Command)
		}
	}
	for _, m := range r.MCPServers {
		add(m.Command)
	}
	for _, t := range r.Tools {
		if len(t.Command) > 0 {
			add(t.Command[0])
		}
		if t.MCP != nil {
			add(t.MCP.Server.Command)
		}
	}
	return all
}

// skillDirs are the directories in the user's home in which docker/cagent looks for skills.
var skillDirs = []string{".claude/skills", ".codex/skills"}

// skills returns the home directory of the OS user that the server runs as. It returns "" if no agent of the definition
// uses this user's skills.
func (b *Place) skills(d *definition) string {
	for _, a := range d.config.Agents {
		if a.Skills != nil && *a.Skills {
			user, _ := b.config.LookupEnv("HOME")
			return user
		}
	}
	return ""
}
