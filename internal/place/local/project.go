package local

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/runner"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/sandbox"
)

// Project configures the work of a group of agents: the repository, the program, its limits and the roles.
type Project struct {
	Name        string `yaml:"name"` // matches namePattern; unique, ignoring case
	DisplayName string `yaml:"display_name"`
	Description string `yaml:"description"`

	// Repository is the path or URL of a git repository. Each agent gets a working copy of it. If Repository is empty,
	// each agent gets an empty directory.
	Repository string `yaml:"repository"`
	// Branch is the branch, tag or commit at which the branches of agents start. If it is empty, they start at the
	// commit that is checked out in the repository or, if the repository has a URL, at its default branch.
	Branch string `yaml:"branch"`
	// Git is the author of the agents' commits. What it leaves empty comes from the git configuration of the server's user.
	Git runner.Author `yaml:"git"`

	Driver  string        `yaml:"driver"`  // shell, claude, codex, acp or command; empty: shell
	Command []string      `yaml:"command"` // the program and its arguments; templates if the driver is command
	Stdin   string        `yaml:"stdin"`   // driver command: template of the standard input
	Output  string        `yaml:"output"`  // driver command: text or jsonl; empty: text
	Fields  driver.Fields `yaml:"fields"`  // driver command: where to find fields in lines of JSON

	Env     map[string]string `yaml:"env"`      // variables for the project's agents
	PassEnv []string          `yaml:"pass_env"` // variables of the server that the project's agents get in addition to Config.PassEnv
	// Credential is a name for the key or the subscription that the agents use for their model, so that several projects can
	// share it. Empty: only this project uses it.
	Credential string        `yaml:"credential"`
	Timeout    time.Duration `yaml:"timeout"` // upper limit for the time limit of a task; 0: no upper limit

	Sandbox sandbox.Mode    `yaml:"sandbox"` // how programs are confined; empty: Config.Sandbox
	Network sandbox.Network `yaml:"network"` // the addresses that programs may connect to; empty: sandbox.Full
	Read    []string        `yaml:"read"`    // paths that programs may read, besides the system and their own files
	Write   []string        `yaml:"write"`   // paths that programs may write besides their own files; each must exist
	Caches  CacheSharing    `yaml:"caches"`  // who shares the caches of programs, if the agents are confined; empty: CachesOfOwner

	Checks `yaml:",inline"` // for all tasks

	Access *fleet.ProjectAccess `yaml:"access"` // who may use the project; nil: everybody

	// MaxCostUSD limits the cost of a task of a role without its own max_cost_usd; 0: no limit.
	MaxCostUSD float64 `yaml:"max_cost_usd"`

	Roles []Role `yaml:"roles"` // empty: coder, operator and manager
}

var (
	namePattern     = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._ -]*[A-Za-z0-9])?$`)
	variablePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*\*?$`)
)

// project is a validated project, or the configuration of one agent as a project; see agentProject.
type project struct {
	Project
	driver         driver.Driver
	dir            string             // the directory in which its agents work; empty: each agent has its own directory
	worksInResults bool               // dir was returned by Place.resultsDir
	modelConfig    *fleet.AgentConfig // the configuration of an agent on a model; nil: the agent is not on a model
}

// validate validates the project, fills in the defaults, makes paths absolute, and creates the driver.
func (proj Project) validate() (project, error) {
	if !namePattern.MatchString(proj.Name) {
		return project{}, errors.New("a project needs a name of letters, digits, spaces, dots, underscores and hyphens")
	}
	proj.Driver = cmp.Or(proj.Driver, "shell")
	d, err := proj.newDriver()
	if err != nil {
		return project{}, err
	}
	if strings.HasPrefix(proj.Branch, "-") {
		return project{}, fmt.Errorf("branch must be a branch, tag or commit, not %q", proj.Branch)
	}
	if err := proj.Git.Validate(); err != nil {
		return project{}, err
	}
	if err := proj.Access.Validate(); err != nil {
		return project{}, err
	}
	if proj.Timeout < 0 {
		return project{}, fmt.Errorf("timeout must not be negative, got %s", proj.Timeout)
	}
	if proj.Repository, err = resolve(proj.Repository); err != nil {
		return project{}, err
	}
	mode, err := sandbox.Choose(proj.Sandbox, proj.Network)
	if err != nil {
		return project{}, err
	}
	if err := resolveAll(&proj.Read, &proj.Write); err != nil {
		return project{}, err
	}
	if proj.Caches = cmp.Or(proj.Caches, CachesOfOwner); proj.Caches != CachesOfOwner && proj.Caches != CachesOfAgent {
		return project{}, fmt.Errorf("caches is %q: use %s, for one cache of each owner's agents, or %s, for one of each agent", proj.Caches, CachesOfOwner, CachesOfAgent)
	}
	if err := checkVariables("pass_env", proj.PassEnv); err != nil {
		return project{}, err
	}
	if err := checkVariables("env", slices.Sorted(maps.Keys(proj.Env))); err != nil {
		return project{}, err
	}
	if err := proj.fleetChecks().Validate(); err != nil {
		return project{}, errors.New(fleet.PublicMessage(err))
	}
	if len(proj.Roles) == 0 {
		proj.Roles = defaultRoles()
		if mode != sandbox.None {
			proj.Roles = defaultEditingRoles(proj.Driver)
		}
	}
	proj.Roles = slices.Clone(proj.Roles)
	for i := range proj.Roles {
		proj.Roles[i].MaxCostUSD = cmp.Or(proj.Roles[i].MaxCostUSD, proj.MaxCostUSD)
	}
	if err := validateRoles(proj.Roles, d); err != nil {
		return project{}, err
	}
	for _, r := range proj.Roles {
		if err := r.checkDriver(d, mode); err != nil {
			return project{}, fmt.Errorf("role %q: %w", r.Name, err)
		}
	}
	return project{Project: proj, driver: d}, nil
}

func (proj Project) newDriver() (driver.Driver, error) {
	return driver.New(withProgramDefaults(driver.Options{
		Kind: proj.Driver, Command: proj.Command, Stdin: proj.Stdin, Output: proj.Output, Fields: proj.Fields,
	}))
}

// withProgramDefaults returns the options, with Fleet's default options for the program added if it is a supported agent CLI.
func withProgramDefaults(o driver.Options) driver.Options {
	if len(o.Command) == 0 {
		return o
	}
	for _, k := range driver.CLIs() {
		if filepath.Base(o.Command[0]) == k.Name {
			o.Keys, o.Env, o.Home, o.WaitsForNextMinute, o.TestedVersion = k.Options.Keys, k.Options.Env, k.Options.Home, k.Options.WaitsForNextMinute, k.Options.TestedVersion
		}
	}
	return o
}

func (p project) fleetProject() fleet.Project {
	return fleet.Project{
		Name: p.Name, DisplayName: cmp.Or(p.DisplayName, p.Name), Description: p.Description,
		TemplateID: "local/" + p.Name, TemplateName: p.Name, Checks: p.fleetChecks(), Groups: p.Access.AllowedGroups(),
	}
}

// project returns the project with the name. It returns PROJECT_NOT_FOUND if the configuration does not have it.
func (p *Place) project(name string) (project, error) {
	var names []string
	for _, proj := range p.setup.Load().projects {
		if proj.Name == name {
			return proj, nil
		}
		names = append(names, proj.Name)
	}
	list := "there are none"
	if len(names) > 0 {
		list = "there are " + strings.Join(names, ", ")
	}
	return project{}, fleet.Errorf(fleet.ReasonProjectNotFound, "there is no project %q: %s", name, list)
}

// role returns the role of the project with the name, ignoring case. An empty name means the default role. It returns
// ROLE_NOT_FOUND if the project does not have the role.
func (p project) role(name string) (Role, error) {
	var names []string
	for _, r := range p.Roles {
		if strings.EqualFold(r.Name, name) || name == "" && r.Default {
			return r, nil
		}
		names = append(names, r.Name)
	}
	return Role{}, fleet.Errorf(fleet.ReasonRoleNotFound,
		"the project %q has no role %q: it has %s", p.Name, name, strings.Join(names, ", "))
}

// Credential implements fleet.Credentialer. It returns "" for the driver shell, which uses no model.
func (p *Place) Credential(project string) string {
	proj, err := p.project(project)
	if err != nil || proj.Driver == "" || proj.Driver == "shell" {
		return ""
	}
	return cmp.Or(proj.Credential, p.Traits().Name+"/"+proj.Name)
}

// MaxCost implements fleet.CostLimiter.
func (p *Place) MaxCost(project, role string) fleet.Micros {
	return fleet.MicrosOf(p.roleOrZero(project, role).MaxCostUSD)
}

// Grant implements fleet.Delegator.
func (p *Place) Grant(project, role string) *fleet.Grant {
	return p.roleOrZero(project, role).Delegate.WithDefaults(project)
}

// roleOrZero returns the role of the project, or the zero Role if the configuration does not have the role.
func (p *Place) roleOrZero(project, role string) Role {
	proj, err := p.project(project)
	if err != nil {
		return Role{}
	}
	r, _ := proj.role(role)
	return r
}
