package coder

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"fleet/internal/fleet"
)

// Grant implements fleet.Delegator.
func (p *Place) Grant(project, role string) *fleet.Grant {
	grants := p.config.Delegate
	if proj, ok := p.config.Projects[project]; ok {
		grants = proj.Delegate
	}
	for name, g := range grants {
		if strings.EqualFold(name, role) {
			return g.WithDefaults(project)
		}
	}
	return nil
}

// checkFleetURL returns an error if the address at which workspaces reach Fleet is not valid, or is missing although agents may delegate.
func (c *Config) checkFleetURL() error {
	if c.FleetURL == "" {
		delegate := len(c.Delegate) > 0
		for _, p := range c.Projects {
			delegate = delegate || len(p.Delegate) > 0
		}
		if delegate {
			return errors.New("coder.delegate needs coder.fleet_url, the address at which workspaces reach this server")
		}
		return nil
	}
	u, err := url.Parse(c.FleetURL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return fmt.Errorf("coder.fleet_url is %q: give an address such as https://fleet.example.com", fleet.Shorten(c.FleetURL, 100))
	}
	return nil
}

// mcpURL returns the address of the MCP endpoints of the Fleet at the address; empty for an empty one.
func mcpURL(base string) string {
	if base == "" {
		return ""
	}
	return strings.TrimRight(base, "/") + "/mcp"
}
