package providers

import (
	"net/url"
	"slices"

	"fleet/internal/fleet"
)

// modelDriver returns the name of the driver that runs models; "" if there is none.
func (s *Service) modelDriver() string {
	for _, d := range s.cfg.Drivers {
		if d.NeedsDocument {
			return d.Name
		}
	}
	return ""
}

// agentConfig returns the configuration of the agent for a request. who is the caller. keyVariable is the name of the
// environment variable with the provider's key; "" if there is none.
func (s *Service) agentConfig(who fleet.Principal, p *Provider, keyVariable string, config map[string]any, tools []fleet.Tool) (*fleet.AgentConfig, error) {
	c := &fleet.AgentConfig{Name: p.Name}
	c.SystemPrompt, c.ReplacesSystemPrompt = config["system"].(string)
	if p.Kind == KindCLI {
		c.Driver, c.Command, c.PassEnv, c.Model = p.Driver, p.Command, p.KeyVariables, modelOf(p, config)
		c.Allow = p.Allow
		c.ReplacesSystemPrompt = false // a program needs its own default prompt to work as an agent
		return c, nil
	}
	doc, err := documentOf(p, keyVariable, config)
	if err != nil {
		return nil, err
	}
	c.Driver, c.Document, c.Tools, c.Allow = s.modelDriver(), doc, tools, []string{}
	if keyVariable != "" {
		c.PassEnv = []string{keyVariable}
	}
	c.PrivateHosts = slices.Clone(s.cfg.ToolHosts)
	for _, t := range tools {
		c.Allow = append(c.Allow, t.Name)
		if u, err := url.Parse(toolURL(&t)); err == nil && who.Admin() && u.Hostname() != "" {
			c.PrivateHosts = append(c.PrivateHosts, u.Hostname())
		}
	}
	return c, nil
}
