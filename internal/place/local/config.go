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

// Config configures a Place. Dir and ShimCommand are needed.
type Config struct {
	Dir          string        // where everything is kept; made when it is not there, for the user alone
	Projects     []Project     // what agents can work on; Discover makes a list
	ShimCommand  []string      // starts ShimMain, with the directory of a run as one more argument
	ACPCommand   []string      // starts ACPMain, with the file of its job as one more argument; none: no agents of the driver acp
	AskCommand   []string      // starts AskMain, with the directory of a run and what to do as more arguments; none: agents ask nobody
	PassEnv      []string      // variables of the server that all agents get too; one that ends in * means all that begin so
	Sandbox      sandbox.Mode  // how the programs of projects are confined that do not say; empty: sandbox.Auto
	Read         []string      // what programs of all agents may read besides the system and their own files
	Write        []string      // what they may write besides their own files; each must exist
	MaxOutput    int64         // bytes of output that the payload of a run has at most; 0: 16 MiB
	OutputMax    int64         // bytes of raw output that are kept of a run; 0: 256 MiB; never less than MaxOutput
	StopGrace    time.Duration // how long a run gets to end by itself before it is killed; 0: 5 s
	Environ      []string      // the server's environment; nil: os.Environ()
	PollInterval time.Duration // see fleet.Traits; 0: the reconciler's default
	Logger       *slog.Logger  // nil: none
}

// Project is what agents work on, and how they work.
type Project struct {
	Name        string `yaml:"name"`
	DisplayName string `yaml:"display_name"`
	Description string `yaml:"description"`

	// Repository is a path or a URL of a git repository, of which each agent gets a working copy. None: an empty directory.
	Repository string `yaml:"repository"`
	// Branch is where the branches of agents begin: a branch, tag or commit. None: what the repository has checked out.
	Branch string `yaml:"branch"`

	Driver  string        `yaml:"driver"`  // shell, claude, acp or command; none: shell
	Command []string      `yaml:"command"` // the program and its arguments; for the driver command, templates
	Stdin   string        `yaml:"stdin"`   // command: template of what the program reads
	Output  string        `yaml:"output"`  // command: text or jsonl; none: text
	Fields  driver.Fields `yaml:"fields"`  // command: where things are in JSON lines

	Env     map[string]string `yaml:"env"`      // variables for its agents
	PassEnv []string          `yaml:"pass_env"` // variables of the server that its agents get too
	Timeout time.Duration     `yaml:"timeout"`  // the longest a task may take here; 0: what the task says

	Sandbox sandbox.Mode    `yaml:"sandbox"` // how its programs are confined; none: Config.Sandbox
	Network sandbox.Network `yaml:"network"` // what its programs may connect to; none: full
	Read    []string        `yaml:"read"`    // what its programs may read besides the system and their own files
	Write   []string        `yaml:"write"`   // what they may write besides their own files; each must exist

	Checks `yaml:",inline"` // of all tasks

	Roles []Role `yaml:"roles"` // none: coder, operator and manager
}

// Role is how an agent behaves.
type Role struct {
	Name        string `yaml:"name"`
	DisplayName string `yaml:"display_name"`
	Description string `yaml:"description"`
	Default     bool   `yaml:"default"`     // none has it: the first one is the default
	Prompt      string `yaml:"prompt"`      // what the agent is told about its role
	PromptFile  string `yaml:"prompt_file"` // a file with that; read for each task

	Checks `yaml:",inline"` // of all tasks of agents in the role, besides those of the project

	Model           string                      `yaml:"model"`
	Tools           []string                    `yaml:"tools"`
	AllowedTools    []string                    `yaml:"allowed_tools"`
	DisallowedTools []string                    `yaml:"disallowed_tools"`
	PermissionMode  string                      `yaml:"permission_mode"`
	MCPServers      map[string]driver.MCPServer `yaml:"mcp_servers"`

	// Permissions let the agent ask. None: it asks nobody, and what needs a permission is denied.
	Permissions *driver.Permissions `yaml:"permissions"`
}

var (
	namePattern     = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._ -]*[A-Za-z0-9])?$`)
	variablePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*\*?$`)
)

// project is a project that is ready for use.
type project struct {
	Project
	driver driver.Driver
	dir    string // where its agents work; empty: in directories of their own
	// results says that dir is one of Place.results.
	results bool
}

// check completes the configuration and says what is wrong with it.
func (c *Config) check() ([]project, error) {
	if c.Dir == "" || len(c.ShimCommand) == 0 {
		return nil, errors.New("the local backend needs a directory and the command that runs its shim")
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, err
	}
	c.Dir = dir
	if c.MaxOutput == 0 {
		c.MaxOutput = runner.DefaultMaxOutput
	}
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
	var ready []project
	for i, p := range c.Projects {
		p.Sandbox = cmp.Or(p.Sandbox, c.Sandbox)
		r, err := p.check()
		if err != nil {
			return nil, fmt.Errorf("project %d %q: %w", i+1, p.Name, err)
		}
		if slices.ContainsFunc(ready, func(o project) bool { return strings.EqualFold(o.Name, p.Name) }) {
			return nil, fmt.Errorf("project %d: there are two projects named %q: give one another name", i+1, p.Name)
		}
		ready = append(ready, r)
	}
	slices.SortFunc(ready, func(a, b project) int { return strings.Compare(a.Name, b.Name) })
	return ready, nil
}

func (p Project) check() (project, error) {
	if !namePattern.MatchString(p.Name) {
		return project{}, errors.New("a project needs a name of letters, digits, spaces, dots, underscores and hyphens")
	}
	if p.Driver == "" {
		p.Driver = "shell"
	}
	o := driver.Options{Kind: p.Driver, Command: p.Command, Stdin: p.Stdin, Output: p.Output, Fields: p.Fields}
	d, err := driver.New(withKnown(o))
	if err != nil {
		return project{}, err
	}
	if strings.HasPrefix(p.Branch, "-") {
		return project{}, fmt.Errorf("branch is a branch, tag or commit, not %q", p.Branch)
	}
	if p.Timeout < 0 {
		return project{}, fmt.Errorf("timeout must not be negative, and is %s", p.Timeout)
	}
	if p.Repository, err = resolve(p.Repository); err != nil {
		return project{}, err
	}
	if _, err := sandbox.Choose(p.Sandbox, p.Network); err != nil {
		return project{}, err
	}
	if err := resolveAll(&p.Read, &p.Write); err != nil {
		return project{}, err
	}
	if err := checkVariables("pass_env", p.PassEnv); err != nil {
		return project{}, err
	}
	if err := checkVariables("env", slices.Sorted(maps.Keys(p.Env))); err != nil {
		return project{}, err
	}
	if err := p.plan().Valid(); err != nil {
		return project{}, errors.New(fleet.PublicMessage(err))
	}
	if len(p.Roles) == 0 {
		p.Roles = DefaultRoles()
	}
	p.Roles = slices.Clone(p.Roles)
	if err := checkRoles(p.Roles); err != nil {
		return project{}, err
	}
	return project{Project: p, driver: d}, nil
}

func checkRoles(roles []Role) error {
	defaults := 0
	for i := range roles {
		r := &roles[i]
		if !namePattern.MatchString(r.Name) {
			return fmt.Errorf("role %d needs a name of letters, digits, spaces, dots, underscores and hyphens, not %q", i+1, r.Name)
		}
		for _, o := range roles[:i] {
			if strings.EqualFold(o.Name, r.Name) {
				return fmt.Errorf("there are two roles named %q: give one another name", r.Name)
			}
		}
		if err := r.plan().Valid(); err != nil {
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
		if err := checkPermissions(r); err != nil {
			return fmt.Errorf("role %q: %w", r.Name, err)
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
		return fmt.Errorf("%d roles are the default: only one can be", defaults)
	}
	return nil
}

// checkPermissions checks what a role may ask for.
func checkPermissions(r *Role) error {
	if _, taken := r.MCPServers[driver.AskServer]; taken {
		return fmt.Errorf("an MCP server cannot have the name %q: it is Fleet's own", driver.AskServer)
	}
	if p := r.Permissions; p != nil && p.Timeout < 0 {
		return fmt.Errorf("timeout of permissions must not be negative, and is %s", p.Timeout)
	}
	return nil
}

// checkVariables checks names of environment variables that agents are to get.
func checkVariables(option string, names []string) error {
	for _, n := range names {
		if !variablePattern.MatchString(n) || option == "env" && strings.HasSuffix(n, "*") {
			return fmt.Errorf("%s: %q is no name of an environment variable", option, n)
		}
		if runner.Reserved(n) {
			return fmt.Errorf("%s: %q is Fleet's own and never given to agents: leave it out", option, n)
		}
	}
	return nil
}

// resolve returns a path as an absolute one, with ~ as the home directory; a URL stays as it is.
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

// resolveAll resolves the paths of the lists.
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
