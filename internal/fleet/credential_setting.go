package fleet

import "fmt"

// CredentialSetting configures a credential.
type CredentialSetting struct {
	Name     string `yaml:"name"`      // as the projects name it
	KeepFree int    `yaml:"keep_free"` // percent of each usage window that the queue leaves to people
}

// maxKeepFree is the largest KeepFree, in percent.
const maxKeepFree = 99

// ValidateCredentials returns an error that names the setting at fault. nameBySetting maps each setting that can name a credential to
// the credential's name, which may be empty.
func ValidateCredentials(all []CredentialSetting, nameBySetting map[string]string) error {
	names := map[string]bool{}
	for i, c := range all {
		switch {
		case checkKeyName(c.Name) != nil:
			return fmt.Errorf("credentials[%d]: %w", i, checkKeyName(c.Name))
		case names[c.Name]:
			return fmt.Errorf("credentials[%d]: the credential %s is there twice", i, c.Name)
		case c.KeepFree < 0 || c.KeepFree > maxKeepFree:
			return fmt.Errorf("credentials[%d]: keep_free is %d: give 0 to %d percent", i, c.KeepFree, maxKeepFree)
		}
		names[c.Name] = true
	}
	for setting, name := range nameBySetting {
		if name != "" && !names[name] {
			return fmt.Errorf("%s has the credential %q, which is not in credentials: add it there", setting, Shorten(name, 60))
		}
	}
	return nil
}
