package local

import (
	"cmp"
	"os"

	"fleet/internal/fleet"
	"fleet/internal/runner"
	"fleet/internal/runner/driver"
)

// Connect implements fleet.Place.
func (p *Place) Connect(a fleet.Agent) fleet.Runner { return p.runnerOf(a) }

// runnerOf returns the agent as the host of this place runs it.
func (p *Place) runnerOf(a fleet.Agent) runner.Agent {
	h := p.home(a.UID)
	return p.host.Agent(a.Name, runner.Home(h), workspace{p, a, h})
}

// workspace implements runner.Workspace for an agent of this place.
type workspace struct {
	place *Place
	agent fleet.Agent
	home  home
}

// Ready implements runner.Workspace.
func (s workspace) Ready() error {
	w, _ := s.home.inspect()
	return w.CheckRunning(s.agent.Name)
}

// Work implements runner.Workspace.
func (s workspace) Work(r fleet.Run) (runner.Work, error) {
	p, err := s.place.agentProject(s.agent, r.Options.Model)
	if err == nil && p.config != nil {
		err = s.place.createStores(s.agent)
	}
	if err != nil {
		return runner.Work{}, err
	}
	job, err := s.place.job(p, s.agent)
	if err != nil {
		return runner.Work{}, err
	}
	record, err := s.home.record()
	if err != nil {
		return runner.Work{}, runner.HostError("cannot read the agent's record", err)
	}
	c, err := s.place.confine(p, s.home, record)
	if err != nil {
		return runner.Work{}, err
	}
	if c != nil && s.agent.Config == nil {
		role, err := p.role(s.agent.Role)
		if err != nil {
			return runner.Work{}, err
		}
		job.Role.Trust = new(role.RepositoryPermissions != IgnorePermissions)
	}
	w := runner.Work{
		Driver: p.driver, Job: job, Dir: cmp.Or(p.dir, s.home.work()), Timeout: p.Timeout,
		Environ: func(own map[string]string) []string { return s.place.environ(p, c, own) },
	}
	if c != nil {
		w.Sandbox = &c.policy
	}
	return w, nil
}

// job returns the driver's job for a task of the agent, without the task itself.
func (p *Place) job(proj project, a fleet.Agent) (driver.Job, error) {
	role, err := proj.role(a.Role)
	if err != nil {
		return driver.Job{}, err
	}
	if role.PromptFile != "" {
		text, err := os.ReadFile(role.PromptFile)
		if err != nil {
			return driver.Job{}, fleet.Errorf(fleet.ReasonProvisioningFailed,
				"the prompt of role %q cannot be read from %s: restore the file, or correct the role's prompt_file", role.Name, role.PromptFile).WithCause(err)
		}
		role.Prompt = string(text)
	}
	servers, err := p.servers(a, role)
	if err != nil {
		return driver.Job{}, err
	}
	return driver.Job{
		OneTask: a.HasOneRun(), Agent: a.Name, Project: proj.Name, Spec: a.Spec,
		Role: driver.Role{
			Name: role.Name, Prompt: role.Prompt, Model: role.Model, Tools: role.Tools, AllowedTools: role.AllowedTools,
			DisallowedTools: role.DisallowedTools, PermissionMode: role.PermissionMode, MCPServers: servers,
			Permissions: role.Permissions, RoleOptions: role.RoleOptions,
			Sealed: hasConfig(a), ReplacesSystemPrompt: hasConfig(a) && a.Config.ReplacesSystemPrompt,
		},
	}, nil
}
