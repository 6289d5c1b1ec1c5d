package local

import (
	"fmt"
	"path/filepath"

	"fleet/internal/runner/acp"
	"fleet/internal/runner/driver"
)

// Discover returns the projects that need no configuration: "shell", which needs only bash, and one for each agent CLI
// that lookPath finds. Callers usually pass exec.LookPath.
func Discover(lookPath func(program string) (string, error)) []Project {
	projects := []Project{{
		Name: "shell", DisplayName: "Shell", Driver: "shell", Roles: defaultRoles("shell", false),
		Description: "Tasks are bash scripts, each agent works in an empty directory of its own",
	}}
	for _, k := range driver.CLIs() {
		if _, err := lookPath(k.Name); err != nil {
			continue
		}
		projects = append(projects, Project{
			Name: k.Name, DisplayName: k.DisplayName, Driver: k.Options.Kind, Command: k.Options.Command,
			Stdin: k.Options.Stdin, Output: k.Options.Output, Fields: k.Options.Fields, Roles: defaultRoles(k.Options.Kind, true), // the directory has no files of people
			Description: fmt.Sprintf("Agents are %s, each works in an empty directory of its own", k.DisplayName),
		})
	}
	return projects
}

// defaultRoles returns the roles of a project without configured roles. If edits is set, agents of the drivers claude and acp with
// these roles may change files in their directory without asking.
func defaultRoles(driver string, edits bool) []Role {
	roles := []Role{
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
	if edits && (driver == "claude" || driver == "acp") {
		for i := range roles {
			roles[i].PermissionMode = acp.AcceptEdits
		}
	}
	return roles
}

// withProgramDefaults returns the options, with Fleet's default options for the program added if it is a supported agent CLI.
func withProgramDefaults(o driver.Options) driver.Options {
	if len(o.Command) == 0 {
		return o
	}
	for _, k := range driver.CLIs() {
		if filepath.Base(o.Command[0]) == k.Name {
			o.Keys, o.Env, o.Home, o.WaitsForNextMinute, o.Tested = k.Options.Keys, k.Options.Env, k.Options.Home, k.Options.WaitsForNextMinute, k.Options.Tested
		}
	}
	return o
}
