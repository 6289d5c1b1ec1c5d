package app

// credentialsBySetting returns the name of the credential in each setting that can have one, by the name of the setting. The name
// is empty if the setting has no credential.
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
