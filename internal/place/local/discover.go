package local

import (
	"fmt"

	"fleet/internal/runner/driver"
)

// Discover returns the projects that need no configuration: "shell", which needs only bash, and one for each agent CLI
// that lookPath finds. Callers usually pass exec.LookPath.
func Discover(lookPath func(program string) (string, error)) []Project {
	projects := []Project{{
		Name: "shell", DisplayName: "Shell", Driver: "shell", Roles: defaultRoles(),
		Description: "Tasks are bash scripts, each agent works in an empty directory of its own",
	}}
	for _, k := range driver.CLIs() {
		if _, err := lookPath(k.Name); err != nil {
			continue
		}
		projects = append(projects, Project{
			Name: k.Name, DisplayName: k.DisplayName, Driver: k.Options.Kind, Command: k.Options.Command,
			Stdin: k.Options.Stdin, Output: k.Options.Output, Fields: k.Options.Fields, Roles: defaultEditingRoles(k.Options.Kind), // the directory has no files of people
			Description: fmt.Sprintf("Agents are %s, each works in an empty directory of its own", k.DisplayName),
		})
	}
	return projects
}
