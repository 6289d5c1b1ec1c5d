// Package coder identifies callers by Coder session tokens.
//
// Package app puts it into the chain of sources. It asks the Coder deployment who the holder of a token is, with that
// token, and remembers the answer for 30 seconds. It never stores a token: in memory it has a hash, and only as long as
// the answer.
package coder

import (
	"fmt"
	"net/url"
	"strings"

	"fleet/internal/identity"
)

// Config configures which Coder users may call, and what they may do. The zero value lets every user of the deployment
// call, and makes those with Coder's role owner admins.
type Config struct {
	// URL is that of the deployment; empty: that of the place coder.
	URL string `yaml:"url"`
	// Roles maps roles of the deployment, such as owner and auditor, and groups, written ORGANIZATION/GROUP, to viewer, user
	// or admin. A user with several has the highest. nil: {owner: admin}.
	Roles identity.Roles `yaml:"roles"`
	// DefaultRole is the role of other users; "none" if they may not call. Empty: user.
	DefaultRole string `yaml:"default_role"`
}

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
