package fleet

import (
	"errors"
	"fmt"
	"strings"
)

// Project is what agents work on.
type Project struct {
	Name         string // what create takes; compared without case
	Place        string // where it is; set by the core
	DisplayName  string
	Description  string
	TemplateID   string
	TemplateName string
	// SpecIsTask says that an agent of the project begins to work on its spec by itself, as soon as it is there: the spec
	// is its first task.
	SpecIsTask bool
	// Checks are of all tasks in the project.
	Checks Checks
	// Groups are those who may use the project, besides admins; empty: everybody.
	Groups []string
}

// ProjectAccess restricts a project in the configuration.
type ProjectAccess struct {
	// Groups may use the project. For others, except admins, it does not exist.
	Groups []string `yaml:"groups"`
}

// Validate returns an error unless there are groups. It may be called on nil, which is no restriction.
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
	}
	return nil
}

// List returns the groups; none if a is nil.
func (a *ProjectAccess) List() []string {
	if a == nil {
		return nil
	}
	return a.Groups
}

// Matches says whether a caller who writes s means the project. Its name, template name and display name are all
// good, in any case.
func (p Project) Matches(s string) bool {
	return strings.EqualFold(s, p.Name) || strings.EqualFold(s, p.TemplateName) && s != "" || strings.EqualFold(s, p.DisplayName) && s != ""
}

// Role is how an agent behaves in a project.
type Role struct {
	Name        string // what create takes; compared without case
	DisplayName string
	Description string
	Default     bool // used when create names none
	Checks      Checks
}
