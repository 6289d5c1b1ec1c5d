package app

// credentialsOf returns the credentials that settings name, by the name of the setting; empty for a setting that names none.
func (c Config) credentialsOf() map[string]string {
	named := map[string]string{}
	for _, p := range c.Local.Projects {
		named["the project "+p.Name] = p.Credential
	}
	for name, p := range c.Coder.Projects {
		named["coder.projects."+name] = p.Credential
	}
	named["coder.credential"] = c.Coder.Credential
	return named
}
