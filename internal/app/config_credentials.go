package app

// credentialsBySetting returns the name of the credential of each part of the configuration that can have one. The key names the
// part for people, such as "the project web" or "coder.credential". The name is empty if the part has no credential.
func (c Config) credentialsBySetting() map[string]string {
	credentials := map[string]string{}
	for _, p := range c.Local.Projects {
		credentials["the project "+p.Name] = p.Credential
	}
	for name, p := range c.Coder.Projects {
		credentials["coder.projects."+name] = p.Credential
	}
	credentials["coder.credential"] = c.Coder.Credential
	return credentials
}
