// Package oidc identifies callers by tokens of an OpenID Connect issuer. It also signs people in with the issuer for
// the page.
//
// Package app puts an Issuer into the chain of sources. The package calls the issuer over HTTP, and never calls the store itself: the
// token says who a caller is, and the token and the configuration say what the caller may do.
package oidc

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/identity"
	"fleet/internal/loopback"
)

// Config configures the issuer. Issuer and ClientID are required.
type Config struct {
	// Issuer is the issuer's identifier, a URL. The issuer's metadata is at Issuer/.well-known/openid-configuration.
	Issuer string `yaml:"issuer"`
	// ClientID is the id of the client with which the page signs people in. The command line uses it too, unless CLIClientID is set.
	ClientID string `yaml:"client_id"`
	// ClientSecretFile is the path of a file with the client's secret. If it is empty, the secret is in
	// FLEET_OIDC_CLIENT_SECRET. If that is empty too, the client is public.
	ClientSecretFile string `yaml:"client_secret_file"`
	// CLIClientID is the id of the client of the command line. It is needed if the page's client has a secret. Empty means ClientID.
	CLIClientID string `yaml:"cli_client_id"`
	// Audience lists further accepted audiences of tokens, for example the audience of access tokens for MCP clients.
	// Tokens for ClientID and CLIClientID are always accepted.
	Audience []string `yaml:"audience"`
	// Scopes are requested when somebody signs in. Empty means openid, profile and email.
	Scopes []string `yaml:"scopes"`
	// UsernameClaim is the claim with the principal's name. Empty means the first of preferred_username, email (if it is verified) and
	// sub that the token has. The name is only for people: Fleet recognizes a principal by its subject.
	UsernameClaim string `yaml:"username_claim"`
	// GroupsClaim is the claim that lists the principal's groups. Empty means groups.
	GroupsClaim string `yaml:"groups_claim"`
	// Roles maps groups to viewer, user or admin. A principal has the highest role of its groups, see DefaultRole.
	Roles identity.Roles `yaml:"roles"`
	// DefaultRole is the role that every principal has at least. Empty or "none" means that principals whose groups are not in Roles
	// have no access.
	DefaultRole string `yaml:"default_role"`

	// ClientSecret is the secret itself, from the environment or from ClientSecretFile.
	ClientSecret string `yaml:"-"`
}

// Validate returns an error that names the first invalid key.
func (c Config) Validate() error {
	u, err := url.Parse(c.Issuer)
	switch {
	case c.Issuer == "":
		return errors.New("oidc.issuer is not set: set it to the URL of the issuer, for example https://login.example.com/realms/main")
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("oidc.issuer is %q: write it like https://login.example.com/realms/main", fleet.Shorten(c.Issuer, 100))
	case u.Scheme == "http" && !loopback.Is(u.Hostname()):
		return fmt.Errorf("oidc.issuer is %q: an issuer on another machine needs https, because otherwise anyone on the network could forge tokens", c.Issuer)
	case c.ClientID == "":
		return errors.New("oidc.client_id is not set: register a client with the issuer, and name it here")
	case len(c.Scopes) > 0 && !slices.Contains(c.Scopes, "openid"):
		return errors.New("oidc.scopes does not contain openid, without which the issuer returns no ID token: add it")
	case c.DefaultRole != "" && c.DefaultRole != "none" && !identity.IsRole(c.DefaultRole):
		return fmt.Errorf("oidc.default_role is %q: it must be viewer, user, admin or none", c.DefaultRole)
	case len(c.Roles) == 0 && !identity.IsRole(c.DefaultRole):
		return errors.New("oidc.roles and oidc.default_role are empty, so nobody would have access: give groups roles, for example {fleet-admins: admin}")
	}
	for group, role := range c.Roles {
		if !identity.IsRole(role) {
			return fmt.Errorf("oidc.roles has %q for %q: it must be viewer, user or admin", role, group)
		}
	}
	return nil
}

// withDefaults returns the configuration with its defaults and the client's secret. It returns an error if the file
// with the secret cannot be read.
func (c Config) withDefaults() (Config, error) {
	if c.ClientSecretFile != "" {
		secret, err := os.ReadFile(c.ClientSecretFile)
		if err != nil {
			return c, fmt.Errorf("oidc.client_secret_file cannot be read: %w", err)
		}
		c.ClientSecret = strings.TrimSpace(string(secret))
	}
	if c.CLIClientID == "" {
		c.CLIClientID = c.ClientID
	}
	if len(c.Scopes) == 0 {
		c.Scopes = []string{"openid", "profile", "email"}
	}
	if c.GroupsClaim == "" {
		c.GroupsClaim = "groups"
	}
	return c, nil
}

// accepts reports whether one of the audiences of a token is accepted by this server.
func (c Config) accepts(audience []string) bool {
	return slices.ContainsFunc(audience, func(a string) bool {
		return a != "" && (a == c.ClientID || a == c.CLIClientID || slices.Contains(c.Audience, a))
	})
}
