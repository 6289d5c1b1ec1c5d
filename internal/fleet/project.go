package fleet

import (
	"errors"
	"fmt"
	"strings"
)

// Project is what agents work on.
type Project struct {
	Name         string // as in create_agent; compared ignoring case
	Place        string // where it is; set by the core
	DisplayName  string
	Description  string
	TemplateID   string
	TemplateName string
	// SpecIsTask means that an agent of the project begins to work on its spec by itself when its workspace runs: the spec
	// is its first task.
	SpecIsTask bool
	// Checks apply to all tasks in the project.
	Checks Checks
	// Groups may use the project, and so may admins; empty: everybody may.
	Groups []string
	// Parameters are the values that a caller can choose, besides the role, when an agent is created.
	Parameters []Parameter
	// MaxCost is the most that a task of an agent with the default role may cost; 0: no limit. Only the core sets it.
	MaxCost Micros
}

// ProjectAccess restricts a project in the configuration.
type ProjectAccess struct {
	// Groups may use the project. For others, except admins, it does not exist.
	Groups []string `yaml:"groups"`
}

// Validate returns an error if the access names no groups, or an invalid one. A nil *ProjectAccess is valid, and does not restrict the
// project.
func (a *ProjectAccess) Validate() error {
	if a == nil {
		return nil
	}
	if len(a.Groups) == 0 {
		return errors.New("access names no groups: name at least one, or leave access out")
	}
	for _, g := range a.Groups {
		if g == "" || (Grantee{Group: g}).Validate() != nil {
			return fmt.Errorf("access.groups has %q, which is not the name of a group", g)
		}
		if err := CheckGroup(g); err != nil {
			return fmt.Errorf("access.groups: %w", err)
		}
	}
	return nil
}

// AllowedGroups returns the groups; nil if a is nil.
func (a *ProjectAccess) AllowedGroups() []string {
	if a == nil {
		return nil
	}
	return a.Groups
}

// Matches reports whether s is the project's name, template name or display name. It ignores case.
func (p Project) Matches(s string) bool {
	return strings.EqualFold(s, p.Name) || strings.EqualFold(s, p.TemplateName) && s != "" || strings.EqualFold(s, p.DisplayName) && s != ""
}

// Role is how an agent behaves in a project.
type Role struct {
	Name        string // as in create_agent; compared ignoring case
	DisplayName string
	Description string
	Default     bool // the role of agents that are created without one
	Checks      Checks
	// Parameters are the values of Project.Parameters that the role sets. A caller cannot choose them.
	Parameters map[string]string
	// MaxCost is the most that a task of an agent with the role may cost; 0: no limit. Only the core sets it.
	MaxCost Micros
}

// FindRole returns the role with the name. If name is empty, it returns the default role, or else the first role. The error is
// ROLE_NOT_FOUND if the project does not have the role, or has no roles.
func FindRole(roles []Role, project, name string) (Role, error) {
	names := make([]string, 0, len(roles))
	for _, r := range roles {
		if name == "" && r.Default || strings.EqualFold(r.Name, name) {
			return r, nil
		}
		names = append(names, r.Name)
	}
	if name == "" && len(roles) > 0 {
		return roles[0], nil
	}
	return Role{}, Errorf(ReasonRoleNotFound, "project %q has no role %q: its roles are %s", project, Shorten(name, 60), JoinNames(names)).
		With("role", Shorten(name, 60)).With("project", project).With("available", strings.Join(names, ", "))
}
