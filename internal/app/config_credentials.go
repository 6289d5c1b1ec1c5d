package app

// credentialsBySetting returns the name of the credential of each part of the configuration that can have one. The key names the
// part for people, such as "the project web" or "coder.credential". The name is empty if the part has no credential.
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
