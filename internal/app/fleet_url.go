package app

import (
	"fmt"
	"net/url"
	"slices"

	"fleet/internal/loopback"
)

// validateFleetURL returns an error if coder.fleet_url lets workspaces call the server without a token, or makes the tokens of their agents cross the
// network unencrypted.
func (c Config) validateFleetURL() error {
	u, err := url.Parse(c.Coder.FleetURL)
	switch {
	case c.Coder.FleetURL == "" || err != nil:
		return nil //nolint:nilerr // the place refuses a malformed URL
	case c.Auth.None():
		return fmt.Errorf("coder.fleet_url opens the server to workspaces, and auth is none, so every program there could do everything: set auth to tokens (`fleet token create` makes one), coder or oidc")
	case u.Scheme == "http" && !c.InsecurePlaintext && !loopback.Is(u.Hostname()):
		return fmt.Errorf("coder.fleet_url is %q, so the tokens of agents would cross the network unencrypted: use https, or set insecure_plaintext if nobody else can read this network", c.Coder.FleetURL)
	}
	return nil
}

// additionalHosts returns the additional host names that requests to the HTTP address may have: allowed_hosts, and the host of coder.fleet_url.
func (c Config) additionalHosts() []string {
	if u, err := url.Parse(c.Coder.FleetURL); err == nil && u.Hostname() != "" {
		return append(slices.Clone(c.AllowedHosts), u.Hostname())
	}
	return c.AllowedHosts
}
