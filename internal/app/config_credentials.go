package app

// credentialsOf returns the credentials that settings name, by the name of the setting.
func (c Config) credentialsOf() map[string]string {
	named := map[string]string{}
	for _, p := range c.Local.Projects {
		named["the project "+p.Name] = p.Credential
	}
	for name, p := range c.Coder.Projects {
		named["coder.projects."+name] = p.Credential
	}
	named["coder.credential"] = c.Coder.Credential
	for setting, name := range named {
		if name == "" {
			delete(named, setting)
		}
	}
	return named
}
