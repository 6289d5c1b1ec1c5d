package local

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/runner"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/sandbox"
)

// ModelsConfig configures agents on models; see ModelPlace. Without a Command there are no such agents.
type ModelsConfig struct {
	Name     string        // name of their place; empty: cagent
	Command  []string      // runs package model/run
	Catalog  fleet.Catalog // contains the definitions that are projects; nil: there are no projects
	Settings driver.ModelSettings
	// Needs is definition.Needs. It is required with a Command. It is a field so that this package does not import the library of
	// definitions.
	Needs func(c *fleet.AgentConfig, s driver.ModelSettings, lookup func(string) (string, bool), models ...string) (driver.ModelNeeds, error)
}

// ModelDrivers returns the drivers that the configuration of an agent on a model can name.
func ModelDrivers() []fleet.Driver {
	return []fleet.Driver{{Name: driver.Cagent, EnforcesTools: true, SupportsMCPServers: true, Remembers: true, NeedsDocument: true}}
}

// ModelPlace is the place of the agents on models. Its projects are the definitions of a catalog, and the roles of a project are the
// agents of its definition. The Place inside it stores and runs the agents.
type ModelPlace struct{ *Place }

var (
	_ fleet.Place    = ModelPlace{}
	_ fleet.Confiner = ModelPlace{}
	_ fleet.Optioner = ModelPlace{}
	_ fleet.Keeper   = ModelPlace{}
)

// ModelPlace returns the place of the agents on models. Closing it closes p.
func (p *Place) ModelPlace() ModelPlace { return ModelPlace{p} }

// Traits implements fleet.Place.
func (m ModelPlace) Traits() fleet.Traits {
	return fleet.Traits{
		Name: cmp.Or(m.config.Models.Name, driver.Cagent), PollInterval: m.config.PollInterval, StopGrace: m.config.StopGrace, Drivers: ModelDrivers(),
	}
}

// Projects implements fleet.Place. It returns the definitions in the agents directory, without those in directories below it.
func (m ModelPlace) Projects(ctx context.Context) (all []fleet.Project, err error) {
	files, err := m.definitions(ctx)
	for _, f := range files {
		if !strings.Contains(f.Name, "/") {
			all = append(all, fleet.Project{Name: f.Name, Description: f.Description})
		}
	}
	slices.SortFunc(all, func(x, y fleet.Project) int { return cmp.Compare(x.Name, y.Name) })
	return all, err
}

// Roles implements fleet.Place. The roles of a project are the agents of its definition.
func (m ModelPlace) Roles(ctx context.Context, project string) ([]fleet.Role, error) {
	f, err := m.definition(ctx, project)
	if err != nil {
		return nil, err
	}
	needs, err := m.modelNeeds(&fleet.AgentConfig{Document: f.Document})
	return needs.Agents, err
}

// definitions returns the definitions in the agents directory that can be used.
func (m ModelPlace) definitions(ctx context.Context) ([]fleet.Definition, error) {
	if err := ctx.Err(); err != nil || m.config.Models.Catalog == nil {
		return nil, err
	}
	all, err := m.config.Models.Catalog.Files(ctx)
	return slices.DeleteFunc(all, func(f fleet.Definition) bool { return f.Problem != "" }), err
}

// definition returns the definition with the name. It returns PROJECT_NOT_FOUND if there is no such definition that can be used.
func (m ModelPlace) definition(ctx context.Context, name string) (fleet.Definition, error) {
	all, err := m.definitions(ctx)
	if err != nil {
		return fleet.Definition{}, err
	}
	i := slices.IndexFunc(all, func(f fleet.Definition) bool { return f.Name == name })
	if i < 0 {
		return fleet.Definition{}, fleet.Errorf(fleet.ReasonProjectNotFound, "there is no definition %q in the agents directory", fleet.Shorten(name, 60))
	}
	return all[i], nil
}

// withConfig returns the agent with its configuration. If the agent belongs to a project, its record has the configuration,
// because the definition may have changed since the agent was created. If there is no record yet, withConfig makes the
// configuration from the project.
func (m ModelPlace) withConfig(ctx context.Context, a fleet.Agent) (fleet.Agent, error) {
	if configNamesDriver(a) && a.Config.Driver != driver.Cagent {
		return a, fleet.Errorf(fleet.ReasonProvisioningFailed, "there is no driver %q here: use %s", fleet.Shorten(a.Config.Driver, 60), driver.Cagent)
	}
	if configNamesDriver(a) {
		return a, nil
	}
	r, err := m.home(a.UID).record()
	if err != nil {
		return a, runner.HostError("cannot read the agent's record", err)
	}
	if r != nil && r.ModelConfig != nil {
		a.Config = r.ModelConfig
		return a, nil
	}
	f, err := m.definition(ctx, a.Project)
	if err != nil {
		return a, fleet.Errorf(fleet.ReasonProvisioningFailed, "%s", fleet.PublicMessage(err)).WithCause(err)
	}
	reports := a.Config != nil && a.Config.Reports
	a.Config = &fleet.AgentConfig{Driver: driver.Cagent, Document: f.Document, Agent: a.Role, Reports: reports}
	return a, nil
}

// Provision implements fleet.Place.
func (m ModelPlace) Provision(ctx context.Context, a fleet.Agent) (fleet.Workspace, error) {
	a, err := m.withConfig(ctx, a)
	if err != nil {
		return fleet.Workspace{}, err
	}
	return m.Place.Provision(ctx, a)
}

// Start implements fleet.Place.
func (m ModelPlace) Start(ctx context.Context, a fleet.Agent) error {
	a, err := m.withConfig(ctx, a)
	if err != nil {
		return err
	}
	return m.Place.Start(ctx, a)
}

// Connect implements fleet.Place.
func (m ModelPlace) Connect(a fleet.Agent) fleet.Runner {
	if configured, err := m.withConfig(context.Background(), a); err == nil { // otherwise, its runs cannot start
		a = configured
	}
	return m.Place.Connect(a)
}

// List implements fleet.Place.
func (m ModelPlace) List(ctx context.Context) ([]fleet.Workspace, error) {
	return m.list(ctx, (*record).isOnModel)
}

// KeptWork implements fleet.Keeper.
func (m ModelPlace) KeptWork(ctx context.Context, uid string) ([]fleet.KeptWork, error) {
	return m.listKept(ctx, uid, (*record).isOnModel)
}

// Repository implements fleet.Integrator. It always returns an error, because agents on models do not work in a repository.
func (m ModelPlace) Repository(project string) (fleet.Repository, error) {
	return nil, fleet.Errorf(fleet.ReasonUnimplemented, "the agents of %q do not work in a repository", project)
}

// Prune implements fleet.Pruner.
func (m ModelPlace) Prune(ctx context.Context, q fleet.PruneQuery) ([]fleet.Leftover, error) {
	return m.pruneHomes(ctx, q, (*record).isOnModel)
}

// Tidy implements fleet.Tidier. It does nothing, because Place.Tidy also removes the remains of these agents.
func (m ModelPlace) Tidy(context.Context, time.Time) error { return nil }

// UnconfinedReason implements fleet.Confiner. It returns "" for an agent that starts no programs, because the agent's tools restrict it
// to its directory.
func (m ModelPlace) UnconfinedReason(a fleet.Agent) string {
	a, err := m.withConfig(context.Background(), a)
	if err != nil {
		return "" // without a project, nothing can run
	}
	if needs, err := m.modelNeeds(a.Config); err != nil || needs.ProgramSource == "" {
		return ""
	}
	return m.Place.UnconfinedReason(a)
}

// CheckOptions implements fleet.Optioner.
func (m ModelPlace) CheckOptions(a fleet.Agent, o fleet.TaskOptions) error {
	if err := driver.CheckOptions(driver.NewModel(m.config.Models.Command, driver.ModelJob{}, nil), o); err != nil || o.Model == "" {
		return err
	}
	a, err := m.withConfig(context.Background(), a)
	if err != nil {
		return nil //nolint:nilerr // the task fails, and says why
	}
	needs, err := m.modelNeeds(a.Config)
	if err != nil {
		return nil //nolint:nilerr // as above
	}
	if !slices.Contains(needs.Models, o.Model) && o.Model != "auto" && !strings.Contains(o.Model, "/") {
		return fleet.InvalidField(fleet.OptionModel, "model is %q: give provider/model, or the name of a model in the agent's definition", o.Model)
	}
	return nil
}

// modelProject converts the configuration of an agent on a model to a project with one role. The process of a run needs the
// whole network, because it sends requests to the model. models are the models that a task of the agent names.
func (p *Place) modelProject(a fleet.Agent, models ...string) (project, error) {
	c := a.Config
	needs, err := p.modelNeeds(c, models...)
	if err != nil {
		return refuse("invalid agent definition: %v", err)
	}
	if err := checkVariables("pass_env", c.PassEnv); err != nil {
		return refuse("the agent's configuration is invalid: %s", err)
	}
	proj := project{Project: Project{Name: a.Project, Network: sandbox.Full}, dir: c.Dir, modelConfig: c}
	if c.Place != "" { // the agent works in a working copy of a project
		base, err := p.project(a.Project)
		if err != nil {
			return refuse("%s", fleet.PublicMessage(err))
		}
		if base.Network != "" && base.Network != sandbox.Full && needs.ProgramSource != "" {
			return refuse("the agent starts programs (%s), which would get the full network access of its model, but the "+
				"project %q allows only network: %s; use a project with network: full", needs.ProgramSource, a.Project, base.Network.Kind())
		}
		proj.Project, proj.dir = base.Project, ""
		proj.Network, proj.Env = sandbox.Full, nil
	}
	servers := map[string]driver.MCPServer{} // a confined run may read the programs of the MCP servers of its role
	for _, command := range needs.Programs {
		servers[command] = driver.MCPServer{Command: command}
	}
	proj.PassEnv, proj.Roles = c.PassEnv, []Role{{Name: a.Role, Default: true, MCPServers: servers}}
	if _, err := p.sandboxOf(proj); err != nil && !needs.UsesMachine { // such an agent needs no sandbox
		proj.Sandbox = sandbox.None
	}
	job := driver.ModelJob{
		UID: a.UID, Config: c, Spec: a.Spec, WorkDir: cmp.Or(proj.dir, p.home(a.UID).workDir()), NoSymlinks: proj.dir != "",
		StateDir: p.home(a.UID).join("state"), MemoryDir: p.memoryDir(a), Settings: p.config.Models.Settings,
	}
	proj.Write = append(slices.Clone(proj.Write), job.StateDir, job.MemoryDir)
	if userHome := p.serverVariable("HOME"); userHome != "" && len(needs.SkillDirs) > 0 {
		job.SkillsHome = userHome
		for _, dir := range needs.SkillDirs {
			proj.Read = append(slices.Clone(proj.Read), filepath.Join(userHome, dir))
		}
	}
	proj.driver = driver.NewModel(p.config.Models.Command, job, needs.Variables)
	return proj, nil
}

// modelNeeds returns what a run with the configuration needs.
func (p *Place) modelNeeds(c *fleet.AgentConfig, models ...string) (driver.ModelNeeds, error) {
	return p.config.Models.Needs(c, p.config.Models.Settings, p.lookUpVariable, models...)
}

// memoryDir returns the directory of the agent's memories. All agents of an owner whose definitions have the same name share a
// directory. An agent whose definition has no name has its own directory.
func (p *Place) memoryDir(a fleet.Agent) string {
	if a.Config.Name == "" {
		return p.home(a.UID).join("state")
	}
	sum := sha256.Sum256([]byte(a.Owner + "\x00" + a.Config.Name))
	return filepath.Join(p.memoriesDir(), hex.EncodeToString(sum[:]))
}

func (p *Place) memoriesDir() string { return filepath.Join(p.config.Dir, "memory") }

// createModelDirs creates the directories in which an agent on a model stores its conversation, its todos and its memories.
func (p *Place) createModelDirs(a fleet.Agent) error {
	err := os.MkdirAll(p.home(a.UID).join("state"), 0o700)
	if err = errors.Join(err, os.MkdirAll(p.memoryDir(a), 0o700)); err != nil {
		return runner.HostError("cannot create the directories of the agent's conversation and memories", err)
	}
	return nil
}
