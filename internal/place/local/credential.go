package local

import "cmp"

// Credential implements fleet.Credentialer. A shell uses no model.
func (p *Place) Credential(project string) string {
	proj, err := p.project(project)
	if err != nil || proj.Driver == "" || proj.Driver == "shell" {
		return ""
	}
	return cmp.Or(proj.Credential, p.Traits().Name+"/"+proj.Name)
}
