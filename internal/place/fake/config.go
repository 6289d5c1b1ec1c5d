package fake

import (
	"context"
	"time"

	"fleet/internal/fleet"
)

// Config configures the initial world. The zero value is a world with DefaultProjects, in which everything succeeds at
// once.
type Config struct {
	// Traits of the place; the default name is "fake". New sets Asks and KeepsVersions.
	Traits fleet.Traits

	// Projects are the projects for agents, in any order; nil: DefaultProjects.
	Projects []Project

	// Workspaces are workspaces that exist at the start, see AddWorkspace.
	Workspaces []fleet.Workspace

	// BuildPolls is how many calls of Inspect or List after Provision or Start still see the workspace as starting.
	BuildPolls int

	// NoMessages makes Send return UNIMPLEMENTED.
	NoMessages bool

	// NoQuestions makes Answer return UNIMPLEMENTED, and the trait Asks false.
	NoQuestions bool

	// Credentials name the credentials with which the agents of each project use their models.
	Credentials map[string]string
	// MaxCosts limit the costs of tasks whose callers set no limit, by role.
	MaxCosts map[string]fleet.Micros
	// Grants are what agents may delegate, by role.
	Grants map[string]*fleet.Grant

	// Before is called before a call of the port does anything. After is called when a call has succeeded, before it returns. If
	// they return an error, the call returns that error. They are not called for methods without a constant of type Method.
	Before, After func(ctx context.Context, c Call) error

	// Now returns the time; nil: time.Now.
	Now func() time.Time
}

// Project is a project with roles.
type Project struct {
	fleet.Project
	Roles []fleet.Role // empty: DefaultRoles
}

// DefaultProjects returns the two projects that the examples of the API use.
func DefaultProjects() []Project {
	return []Project{
		{Project: fleet.Project{
			Name: "DataOne", DisplayName: "DataOne Platform", Description: "Data processing and analytics platform",
			TemplateID: "template-uuid-2", TemplateName: "dataone-devcontainer",
		}},
		{Project: fleet.Project{
			Name: "Setup", DisplayName: "Setup Monorepo", Description: "Infrastructure and tooling monorepo",
			TemplateID: "template-uuid-1", TemplateName: "setup-devcontainer",
		}},
	}
}

// DefaultRoles returns the three roles that the examples of the API use.
func DefaultRoles() []fleet.Role {
	return []fleet.Role{
		{Name: "coder", DisplayName: "Software Engineer", Description: "Writes code, implements features, fixes bugs", Default: true},
		{Name: "operator", DisplayName: "Operations Engineer", Description: "Manages deployments, monitors systems, handles incidents"},
		{Name: "manager", DisplayName: "Engineering Manager", Description: "Coordinates work, reviews specs, verifies agent alignment"},
	}
}
