package coder

// Credential implements fleet.Credentialer.
func (p *Place) Credential(project string) string {
	if proj, ok := p.config.Projects[project]; ok {
		return proj.Credential
	}
	return p.config.Credential
}
