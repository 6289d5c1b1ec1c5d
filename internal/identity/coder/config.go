// Package coder identifies callers by Coder session tokens.
//
// Package app puts Users into the chain of sources. Users sends requests with the token to the Coder deployment to learn who the holder
// is, and uses the answer for at most 30 seconds. It never stores a token: it keeps only the token's hash in memory, together with the
// answer.
package coder

import (
	"fmt"
	"net/url"
	"strings"

	"fleet/internal/identity"
)

// Config configures which Coder users may call Fleet, and what they may do. With the zero value, every user of the
// deployment may call Fleet, and users with Coder's role owner are admins.
type Config struct {
	// URL is the URL of the deployment. Empty means the deployment of the place coder.
	URL string `yaml:"url"`
	// Roles maps Coder's roles and groups to viewer, user or admin. A role is a role of the deployment, such as owner or
	// auditor; a group is written ORGANIZATION/GROUP. A user with several gets the highest, see DefaultRole. nil means {owner: admin}.
	Roles identity.Roles `yaml:"roles"`
	// DefaultRole is the role that every user has at least. "none" means that users without a role in Roles may not call Fleet. Empty
	// means user.
	DefaultRole string `yaml:"default_role"`
}

// noRole is the DefaultRole with which users without a role in Roles may not call Fleet.
const noRole = "none"

// Validate returns an error that names the first invalid key.
func (c Config) Validate() error {
	if c.URL != "" {
		u, err := url.Parse(c.URL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" {
			return fmt.Errorf("coder_auth.url must be written like https://coder.example.com")
		}
	}
	if c.DefaultRole != "" && c.DefaultRole != noRole && !identity.IsRole(c.DefaultRole) {
		return fmt.Errorf("coder_auth.default_role is %q: it must be viewer, user, admin or none", c.DefaultRole)
	}
	return c.Roles.Validate("coder_auth.roles")
}

// withDefaults returns the configuration with its defaults. In the result, an empty DefaultRole means noRole.
func (c Config) withDefaults() Config {
	c.URL = strings.TrimRight(c.URL, "/")
	if c.Roles == nil {
		c.Roles = identity.Roles{"owner": "admin"}
	}
	switch c.DefaultRole {
	case "":
		c.DefaultRole = "user"
	case noRole:
		c.DefaultRole = ""
	}
	return c
}
