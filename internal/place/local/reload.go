package local

import (
	"fmt"
	"maps"
	"strings"
)

// setup is the part of the configuration that describes projects. It does not change: a reload replaces it.
type setup struct {
	projects []project
	paths    paths
	// retired has, by name, all projects of earlier setups of this process, each with all its earlier roles. Runs and checks of
	// tasks that began before a project or role was removed still need them.
	retired map[string]project
}

// Reload validates the projects and returns a function that makes the place use them instead of its current ones. privateFiles
// replaces Config.PrivateFiles. Nothing else in the configuration changes. Runs that have begun keep the settings that they were
// started with. An agent whose project or role no longer exists accepts no further tasks; see fleet.HostFacts.ClosedReason. Reload
// and apply are not safe for concurrent use.
func (p *Place) Reload(projects []Project, privateFiles map[string]string) (apply func(), err error) {
	c := p.config
	c.Projects, c.PrivateFiles = projects, privateFiles
	next := &setup{retired: map[string]project{}}
	if next.projects, err = c.validate(); err != nil {
		return nil, err
	}
	if next.paths, err = c.checkPaths(next.projects); err != nil {
		return nil, err
	}
	return func() {
		current := p.setup.Load()
		currentNames := map[string]bool{}
		for _, proj := range current.projects {
			currentNames[proj.Name] = true
		}
		for _, proj := range next.projects {
			if !currentNames[proj.Name] {
				p.config.removeTemporaryFiles(proj)
			}
		}
		maps.Copy(next.retired, current.retired)
		for _, proj := range current.projects { // for each role, the last setup that had it counts
			old := next.retired[proj.Name]
			for _, r := range old.Roles {
				if _, err := proj.role(r.Name); err != nil {
					r.Default = false
					proj.Roles = append(proj.Roles[:len(proj.Roles):len(proj.Roles)], r)
				}
			}
			next.retired[proj.Name] = proj
		}
		p.setup.Store(next)
	}, nil
}

// projectOrRetired returns the project with the name for an agent in the role. If the configuration no longer has the project or the
// role, it returns the retired project, for tasks that have begun. If the project exists but never had the role, it returns the project
// without an error.
func (p *Place) projectOrRetired(name, role string) (project, error) {
	proj, err := p.project(name)
	if err == nil {
		if _, err := proj.role(role); err == nil {
			return proj, nil
		}
	}
	if old, ok := p.setup.Load().retired[name]; ok {
		if _, err := old.role(role); err == nil {
			return old, nil
		}
	}
	return proj, err
}

// closedReason returns why an agent of the project and role accepts no tasks, or "" if it accepts them. It returns "" for an agent
// without a project, because the agent has its own configuration.
func (p *Place) closedReason(name, role string) string {
	if name == "" {
		return ""
	}
	var names []string
	for _, proj := range p.setup.Load().projects {
		if proj.Name == name {
			if _, err := proj.role(role); err != nil && role != "" {
				return fmt.Sprintf("its role %q is no longer a role of the project %s in fleet.yaml", role, name)
			}
			return ""
		}
		names = append(names, proj.Name)
	}
	if len(names) == 0 {
		return fmt.Sprintf("its project %s is no longer in fleet.yaml, which has no projects", name)
	}
	return fmt.Sprintf("its project %s is no longer in fleet.yaml, which has %s", name, strings.Join(names, ", "))
}
