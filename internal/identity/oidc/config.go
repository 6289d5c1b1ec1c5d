// Package oidc identifies callers by tokens of an OpenID Connect issuer, and signs people in with it for the page.
//
// Package app puts it into the chain of authenticators. It calls the issuer over HTTP, and never the store: who a caller
// is and what they may do is in the token and in the configuration.
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
	// Issuer is the issuer's identifier, a URL. What it publishes is at Issuer/.well-known/openid-configuration.
	Issuer string `yaml:"issuer"`
	// ClientID is the client that the page signs people in with, and the command line unless CLIClientID is set.
	ClientID string `yaml:"client_id"`
	// ClientSecretFile is the path of a file with the client's secret; empty: FLEET_OIDC_CLIENT_SECRET, or the client is
	// public.
	ClientSecretFile string `yaml:"client_secret_file"`
	// CLIClientID is the client of the command line, where the page's client has a secret; empty: ClientID.
	CLIClientID string `yaml:"cli_client_id"`
	// Audience lists further audiences of tokens that are accepted, for example those of MCP clients' access tokens.
	// Tokens for ClientID and CLIClientID are always accepted.
	Audience []string `yaml:"audience"`
	// Scopes are asked for when somebody signs in; empty: openid, profile and email.
	Scopes []string `yaml:"scopes"`
	// UsernameClaim is the claim with the principal's name; empty: the first of preferred_username, email and sub that the
	// token has. The name is only for people: a principal is recognized by its subject.
	UsernameClaim string `yaml:"username_claim"`
	// GroupsClaim is the claim that lists the principal's groups; empty: groups.
	GroupsClaim string `yaml:"groups_claim"`
	// Roles maps groups to viewer, user or admin. A principal has the highest role of its groups.
	Roles identity.Roles `yaml:"roles"`
	// DefaultRole is the role of principals without a group in Roles; empty or "none": they have no access.
	DefaultRole string `yaml:"default_role"`

	// ClientSecret is the secret itself, from the environment.
	ClientSecret string `yaml:"-"`
}

// Validate returns an error that names the first invalid key.
func (c Config) Validate() error {
	u, err := url.Parse(c.Issuer)
	switch {
	case c.Issuer == "":
		return errors.New("oidc.issuer is not set: it is the URL of the issuer, for example https://login.example.com/realms/main")
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
			return fmt.Errorf("oidc.roles has %q for %q: a role is viewer, user or admin", role, group)
		}
	}
	return nil
}

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

// accepts reports whether a token for one of the audiences is for this server.
func (c Config) accepts(audience []string) bool {
	return slices.ContainsFunc(audience, func(a string) bool {
		return a != "" && (a == c.ClientID || a == c.CLIClientID || slices.Contains(c.Audience, a))
	})
}
