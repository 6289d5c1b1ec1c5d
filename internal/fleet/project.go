package fleet

import (
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
