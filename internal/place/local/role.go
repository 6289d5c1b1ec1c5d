package local

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/runner/acp"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/sandbox"
)

// Role configures how an agent behaves.
type Role struct {
	Name        string `yaml:"name"`
	DisplayName string `yaml:"display_name"`
	Description string `yaml:"description"`
	Default     bool   `yaml:"default"`     // if no role sets it, the role "coder" is the default or, without one, the first
	Prompt      string `yaml:"prompt"`      // instructions for the agent about its role
	PromptFile  string `yaml:"prompt_file"` // path of a file with the prompt; the file is read for each task

	Checks `yaml:",inline"` // for all tasks of agents in the role, after the checks of the project

	driver.RoleOptions `yaml:",inline"`

	Model           string   `yaml:"model"`
	Tools           []string `yaml:"tools"`         // the tools that the agent has; nil: the program's default
	AllowedTools    []string `yaml:"allowed_tools"` // tools that need no permission
	DisallowedTools []string `yaml:"disallowed_tools"`
	PermissionMode  string   `yaml:"permission_mode"`
	// RepositoryPermissions says whether Claude Code follows permissions.allow in the .claude/settings.json of the agent's
	// repository: follow or ignore. If it is empty, a confined Claude Code follows them.
	RepositoryPermissions RepositoryPermissions       `yaml:"repository_permissions"`
	MCPServers            map[string]driver.MCPServer `yaml:"mcp_servers"`

	// Permissions lets the agent ask people for permissions. If it is nil, the agent cannot ask, and tools that need a
	// permission are denied.
	Permissions *driver.Permissions `yaml:"permissions"`

	// Delegate lets the agent delegate tasks to other agents of its owner. If it is nil, it cannot.
	Delegate *fleet.Grant `yaml:"delegate"`
}

// RepositoryPermissions says whether Claude Code follows the permissions in the agent's repository.
type RepositoryPermissions string

// These are the values of RepositoryPermissions.
const (
	FollowPermissions RepositoryPermissions = "follow"
	IgnorePermissions RepositoryPermissions = "ignore"
)

// defaultEditingRoles returns the default roles with a permission: agents of the drivers claude and acp may change files in their
// directory without asking.
func defaultEditingRoles(driverKind string) []Role {
	roles := defaultRoles()
	if driverKind == "claude" || driverKind == "acp" {
		for i := range roles {
			roles[i].PermissionMode = acp.AcceptEdits
		}
	}
	return roles
}

// defaultRoles returns the roles of a project without configured roles.
func defaultRoles() []Role {
	return []Role{
		{
			Name: "coder", DisplayName: "Software Engineer", Default: true,
			Description: "Writes code, implements features, fixes bugs",
			Prompt: "You are a software engineer. You write code, implement features and fix bugs. Read what is there before " +
				"you change it, keep to its style, and run what tests it has. When you are done, say in a few sentences what " +
				"you changed, what you checked, and what is left.",
		},
		{
			Name: "operator", DisplayName: "Operations Engineer",
			Description: "Manages deployments, monitors systems, handles incidents",
			Prompt: "You are an operations engineer. You manage deployments, watch systems and handle incidents. Look before " +
				"you act, prefer steps that can be undone, and verify that each did what it should. When you are done, say " +
				"in a few sentences what you found, what you did, and what to watch.",
		},
		{
			Name: "manager", DisplayName: "Engineering Manager",
			Description: "Coordinates work, reviews specs, verifies agent alignment",
			Prompt: "You are an engineering manager. You coordinate work, review specifications and verify that what others " +
				"did is what was asked for. You change no code yourself. When you are done, say in a few sentences what you " +
				"decided, why, and who should do what next.",
		},
	}
}

// validateRoles validates the roles, of which there must be at least one. It resolves the paths of their prompt files, and makes a
// role the default if none is.
func validateRoles(roles []Role, d driver.Driver) error {
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
		if err := driver.CheckOptions(d, r.TaskOptions()); err != nil {
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
		coder := slices.IndexFunc(roles, func(r Role) bool { return r.Name == "coder" })
		roles[max(coder, 0)].Default = true
	case 1:
	default:
		return fmt.Errorf("%d roles have default set: set it on one role only", defaults)
	}
	return nil
}

// checkDriver returns an error if the driver does not have the role's permission_mode, or if repository_permissions has an unknown
// value or one that needs a sandbox while mode is sandbox.None.
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

// checkPermissions validates the permissions of a role. It also returns an error if an MCP server of the role has the name of Fleet's
// own server, which asks for permissions.
func checkPermissions(r *Role) error {
	if _, taken := r.MCPServers[driver.AskServer]; taken {
		return fmt.Errorf("an MCP server cannot have the name %q: Fleet uses it for its own server", driver.AskServer)
	}
	if p := r.Permissions; p != nil && p.Timeout < 0 {
		return fmt.Errorf("timeout of permissions must not be negative, got %s", p.Timeout)
	}
	return nil
}

// allowEdits lets the agent's program edit files in its directory without asking, unless the role sets a permission mode or lists of
// tools. It does not allow commands.
func (r *Role) allowEdits() {
	if r.PermissionMode == "" && r.Tools == nil && len(r.AllowedTools) == 0 {
		r.PermissionMode = acp.AcceptEdits
	}
}
