package local

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
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

// Config configures a Place. Dir and Program are required.
type Config struct {
	Name             string       // name of the place; empty: local
	Dir              string       // directory for all files of the place; created with access for the user only
	Projects         []Project    // the projects that agents can work on; see Discover
	Program          string       // supervises runs: see runner.Config
	PassEnv          []string     // variables of the server that all agents get; a * at the end matches any suffix
	Sandbox          sandbox.Mode // the default for projects; empty: sandbox.Auto
	Read             []string     // paths that programs may read, besides the system and their own files
	Write            []string     // paths that programs may write besides their own files; each must exist
	MaxPayloadOutput int64        // limit of the output in the payload of a run, in bytes; 0: 16 MiB
	MaxRawOutput     int64        // limit of the raw output that is kept of a run, in bytes; 0: 256 MiB; at least MaxPayloadOutput
	// KeptRetention is how long the home of a deleted agent is kept if it may have work that exists nowhere else; 0: 7 days;
	// negative: for ever. KeptMax limits the size of all kept homes, in bytes; 0: 20 GiB; negative: no limit. The oldest are
	// removed first.
	KeptRetention time.Duration
	KeptMax       int64
	// CacheMax limits the size of the caches that the agents of one owner share in one project, in bytes; 0: 20 GiB;
	// negative: no limit.
	CacheMax     int64
	Private      map[string]string // files of the server that no agent may read, by the names of their settings
	StopGrace    time.Duration     // how long a run may take to stop before it is killed; 0: 5 s
	Environ      []string          // the server's environment; nil: os.Environ()
	PollInterval time.Duration     // see fleet.Traits; 0: the reconciler's default
	Models       Models            // agents on models
	Logger       *slog.Logger      // nil: no logging
}

// Project configures what agents work on, and how.
type Project struct {
	Name        string `yaml:"name"`
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
	// Credential names the key or the subscription with which the agents use their model, if several projects have the same one.
	// Empty: it is that of this project alone.
	Credential string        `yaml:"credential"`
	Timeout    time.Duration `yaml:"timeout"` // the longest time for a task of this project; 0: the task's own limit

	Sandbox sandbox.Mode    `yaml:"sandbox"` // how programs are confined; empty: Config.Sandbox
	Network sandbox.Network `yaml:"network"` // what programs may connect to; empty: full
	Read    []string        `yaml:"read"`    // paths that programs may read, besides the system and their own files
	Write   []string        `yaml:"write"`   // paths that programs may write besides their own files; each must exist
	Caches  CacheSharing    `yaml:"caches"`  // who shares the caches of tools, if the agents are confined; empty: CachesOfOwner

	Checks `yaml:",inline"` // for all tasks

	Access *fleet.ProjectAccess `yaml:"access"` // who may use the project; nil: everybody

	// MaxCostUSD is what a task of a role without its own max_cost_usd may cost; 0: no limit.
	MaxCostUSD float64 `yaml:"max_cost_usd"`

	Roles []Role `yaml:"roles"` // empty: coder, operator and manager
}

// Role configures how an agent behaves.
type Role struct {
	Name        string `yaml:"name"`
	DisplayName string `yaml:"display_name"`
	Description string `yaml:"description"`
	Default     bool   `yaml:"default"`     // if no role sets it, the first role is the default
	Prompt      string `yaml:"prompt"`      // instructions for the agent about its role
	PromptFile  string `yaml:"prompt_file"` // path of a file with the prompt; the file is read for each task

	Checks `yaml:",inline"` // for all tasks of agents in the role, after the checks of the project

	driver.Limits `yaml:",inline"`

	Model           string   `yaml:"model"`
	Tools           []string `yaml:"tools"`
	AllowedTools    []string `yaml:"allowed_tools"`
	DisallowedTools []string `yaml:"disallowed_tools"`
	PermissionMode  string   `yaml:"permission_mode"`
	// RepositoryPermissions says whether Claude Code follows permissions.allow in the .claude/settings.json of the agent's
	// repository: follow or ignore. If it is empty, it follows them if it is confined.
	RepositoryPermissions RepositoryPermissions       `yaml:"repository_permissions"`
	MCPServers            map[string]driver.MCPServer `yaml:"mcp_servers"`

	// Permissions lets the agent ask people for permissions. If it is nil, the agent cannot ask, and tools that need a
	// permission are denied.
	Permissions *driver.Permissions `yaml:"permissions"`

	// Delegate lets the agent delegate tasks to other agents of its owner. If it is nil, it cannot.
	Delegate *fleet.Grant `yaml:"delegate"`
}

// RepositoryPermissions is a value of Role.RepositoryPermissions.
type RepositoryPermissions string

// These are the values of RepositoryPermissions.
const (
	FollowPermissions RepositoryPermissions = "follow"
	IgnorePermissions RepositoryPermissions = "ignore"
)

var (
	namePattern     = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._ -]*[A-Za-z0-9])?$`)
	variablePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*\*?$`)
)

// project is a validated project.
type project struct {
	Project
	driver driver.Driver
	dir    string // the directory in which its agents work; empty: each agent has its own directory
	// worksInResults is true if dir was returned by Place.resultsDir.
	worksInResults bool
	config         *fleet.AgentConfig // of an agent on a model; nil: another driver does its work
}

// validate validates the configuration, fills in the defaults, and returns the projects, sorted by name.
func (c *Config) validate() ([]project, error) {
	if c.Dir == "" || c.Program == "" {
		return nil, errors.New("a place needs Dir and Program")
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, err
	}
	c.Dir = dir
	if c.MaxPayloadOutput == 0 {
		c.MaxPayloadOutput = runner.DefaultMaxPayloadOutput
	}
	c.KeptRetention = cmp.Or(c.KeptRetention, DefaultKeptRetention)
	c.KeptMax = cmp.Or(c.KeptMax, DefaultKeptMax)
	c.CacheMax = cmp.Or(c.CacheMax, DefaultCacheMax)
	if c.StopGrace == 0 {
		c.StopGrace = runner.DefaultStopGrace
	}
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if err := checkVariables("pass_env", c.PassEnv); err != nil {
		return nil, err
	}
	if _, err := sandbox.Choose(c.Sandbox, ""); err != nil {
		return nil, err
	}
	if err := resolveAll(&c.Read, &c.Write); err != nil {
		return nil, err
	}
	var validated []project
	for i, proj := range c.Projects {
		proj.Sandbox = cmp.Or(proj.Sandbox, c.Sandbox)
		r, err := proj.validate()
		if err != nil {
			return nil, fmt.Errorf("project %d %q: %w", i+1, proj.Name, err)
		}
		if slices.ContainsFunc(validated, func(o project) bool { return strings.EqualFold(o.Name, proj.Name) }) {
			return nil, fmt.Errorf("project %d: there are two projects named %q: rename one of them", i+1, proj.Name)
		}
		validated = append(validated, r)
	}
	slices.SortFunc(validated, func(a, b project) int { return strings.Compare(a.Name, b.Name) })
	return validated, nil
}

func (proj Project) validate() (project, error) {
	if !namePattern.MatchString(proj.Name) {
		return project{}, errors.New("a project needs a name of letters, digits, spaces, dots, underscores and hyphens")
	}
	if proj.Driver == "" {
		proj.Driver = "shell"
	}
	o := driver.Options{Kind: proj.Driver, Command: proj.Command, Stdin: proj.Stdin, Output: proj.Output, Fields: proj.Fields}
	d, err := driver.New(withProgramDefaults(o))
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
	proj.Caches = cmp.Or(proj.Caches, CachesOfOwner)
	if err := proj.Caches.validate(); err != nil {
		return project{}, err
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
		proj.Roles = defaultRoles(proj.Driver, mode != sandbox.None)
	}
	proj.Roles = slices.Clone(proj.Roles)
	for i := range proj.Roles {
		if r := &proj.Roles[i]; r.MaxCostUSD == 0 {
			r.MaxCostUSD = proj.MaxCostUSD
		}
	}
	if err := checkRoles(proj.Roles, d); err != nil {
		return project{}, err
	}
	for _, r := range proj.Roles {
		if err := r.checkDriver(d, mode); err != nil {
			return project{}, fmt.Errorf("role %q: %w", r.Name, err)
		}
	}
	return project{Project: proj, driver: d}, nil
}

func checkRoles(roles []Role, d driver.Driver) error {
	defaults := 0
	for i := range roles {
		r := &roles[i]
		if !namePattern.MatchString(r.Name) {
			return fmt.Errorf("role %d needs a name of letters, digits, spaces, dots, underscores and hyphens, not %q", i+1, r.Name)
		}
		for _, o := range roles[:i] {
			if strings.EqualFold(o.Name, r.Name) {
				return fmt.Errorf("there are two roles named %q: rename one of them", r.Name)
			}
		}
		if err := r.fleetChecks().Validate(); err != nil {
			return fmt.Errorf("role %q: %s", r.Name, fleet.PublicMessage(err))
		}
		if r.Prompt != "" && r.PromptFile != "" {
			return fmt.Errorf("role %q has both prompt and prompt_file: leave one out", r.Name)
		}
		if r.PromptFile != "" {
			path, err := resolve(r.PromptFile)
			if err != nil {
				return err
			}
			if _, err := os.ReadFile(path); err != nil {
				return fmt.Errorf("prompt_file of role %q: %w", r.Name, err)
			}
			r.PromptFile = path
		}
		if err := driver.CheckOptions(d, r.Options()); err != nil {
			return fmt.Errorf("role %q: %s", r.Name, fleet.PublicMessage(err))
		}
		if err := checkPermissions(r); err != nil {
			return fmt.Errorf("role %q: %w", r.Name, err)
		}
		if err := r.Delegate.Validate(); err != nil {
			return fmt.Errorf("role %q: %s", r.Name, fleet.PublicMessage(err))
		}
		if r.Default {
			defaults++
		}
	}
	switch defaults {
	case 0:
		roles[0].Default = true
	case 1:
	default:
		return fmt.Errorf("%d roles have default set: set it on one role only", defaults)
	}
	return nil
}

// checkDriver returns an error if the driver's program has no such permission_mode, or cannot follow repository_permissions.
func (r Role) checkDriver(d driver.Driver, mode sandbox.Mode) error {
	if m, ok := d.(driver.ModesDriver); ok && r.PermissionMode != "" && !slices.Contains(m.Modes(), r.PermissionMode) {
		return fmt.Errorf("permission_mode is %q: use one of %s", r.PermissionMode, strings.Join(m.Modes(), ", "))
	}
	switch r.RepositoryPermissions {
	case "", IgnorePermissions:
	case FollowPermissions:
		if mode == sandbox.None {
			return errors.New("repository_permissions is follow, but the project is not confined, so Claude Code uses your own file ~/.claude.json: trust the repository there, or set sandbox to auto")
		}
	default:
		return fmt.Errorf("repository_permissions is %q: use follow or ignore", r.RepositoryPermissions)
	}
	return nil
}

// checkPermissions validates the permissions of a role.
func checkPermissions(r *Role) error {
	if _, taken := r.MCPServers[driver.AskServer]; taken {
		return fmt.Errorf("an MCP server cannot have the name %q: Fleet uses it for its own server", driver.AskServer)
	}
	if p := r.Permissions; p != nil && p.Timeout < 0 {
		return fmt.Errorf("timeout of permissions must not be negative, got %s", p.Timeout)
	}
	return nil
}

// checkVariables validates names of environment variables for agents.
func checkVariables(option string, names []string) error {
	for _, n := range names {
		if !variablePattern.MatchString(n) || option == "env" && strings.HasSuffix(n, "*") {
			return fmt.Errorf("%s: %q is not a valid name of an environment variable", option, n)
		}
		if runner.IsReserved(n) {
			return fmt.Errorf("%s: %q is reserved for Fleet and never passed to agents: leave it out", option, n)
		}
	}
	return nil
}

// resolve returns the absolute path, with ~ expanded to the home directory. It returns URLs and an empty path
// unchanged.
func resolve(path string) (string, error) {
	if path == "" || isRemote(path) {
		return path, nil
	}
	if path == "~" || strings.HasPrefix(path, "~/") {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		path = filepath.Join(home, path[1:])
	}
	return filepath.Abs(path)
}

// resolveAll replaces each list by a copy with resolved paths.
func resolveAll(lists ...*[]string) (err error) {
	for _, list := range lists {
		*list = slices.Clone(*list)
		for i, path := range *list {
			if (*list)[i], err = resolve(path); err != nil {
				return err
			}
		}
	}
	return nil
}
