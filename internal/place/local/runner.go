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

// runnerOf returns the runner of the agent's tasks.
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
	proj, err := s.place.agentProject(s.agent, r.Options.Model)
	if err == nil && proj.modelConfig != nil {
		err = s.place.createModelDirs(s.agent)
	}
	if err != nil {
		return runner.Work{}, err
	}
	job, err := s.place.job(proj, s.agent)
	if err != nil {
		return runner.Work{}, err
	}
	rec, err := s.home.record()
	if err != nil {
		return runner.Work{}, runner.HostError("cannot read the agent's record", err)
	}
	c, err := s.place.confine(proj, s.home, rec)
	if err != nil {
		return runner.Work{}, err
	}
	if c != nil && s.agent.Config == nil {
		role, err := proj.role(s.agent.Role)
		if err != nil {
			return runner.Work{}, err
		}
		job.Role.Trust = new(role.RepositoryPermissions != IgnorePermissions)
	}
	w := runner.Work{
		Driver: proj.driver, Job: job, Dir: cmp.Or(proj.dir, s.home.workDir()), Timeout: proj.Timeout,
		Environ: func(taskVariables map[string]string) []string { return s.place.environ(proj, c, taskVariables) },
	}
	if c != nil {
		w.Sandbox = &c.policy
	}
	return w, nil
}

// Tree implements runner.Workspace. The changes of a deleted agent's tasks are still in the repository of the agent's project,
// so Tree finds them too.
func (s workspace) Tree() (*runner.Tree, error) {
	t := &runner.Tree{Git: s.place.git}
	rec, err := s.home.record()
	switch {
	case err != nil:
		return nil, runner.HostError("cannot read the agent's record", err)
	case rec != nil:
		t.Tree = s.home.tree(rec)
	default:
		proj, err := s.place.project(s.agent.Project)
		if err != nil {
			return nil, nil //nolint:nilerr,nilnil // without the project, the repository is unknown
		}
		t.Repository = s.place.config.repositoryPath(proj.Repository)
	}
	if t.Repository == "" {
		return nil, nil //nolint:nilnil // see runner.Workspace
	}
	t.UID = s.agent.UID
	return t, nil
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
	servers, err := p.mcpServers(a, role)
	if err != nil {
		return driver.Job{}, err
	}
	return driver.Job{
		OneTask: a.HasOneRun(), Agent: a.Name, Project: proj.Name, Spec: a.Spec,
		Role: driver.Role{
			Name: role.Name, Prompt: role.Prompt, Model: role.Model, Tools: role.Tools, AllowedTools: role.AllowedTools,
			DisallowedTools: role.DisallowedTools, PermissionMode: role.PermissionMode, MCPServers: servers,
			Permissions: role.Permissions, RoleOptions: role.RoleOptions,
			Sealed: configNamesDriver(a), ReplacesSystemPrompt: configNamesDriver(a) && a.Config.ReplacesSystemPrompt,
		},
	}, nil
}
