package app

// credentialsBySetting returns the credential of each setting that can name one, by the name of the setting. It is empty if the
// setting names none.
func (c Config) credentialsBySetting() map[string]string {
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
