package coder

import (
	"strings"

	"fleet/internal/fleet"
)

// projectSettings returns the settings of the project that the configuration lists under the name. If it lists none, they are the
// settings for all other projects.
func (p *Place) projectSettings(name string) Settings {
	if proj, ok := p.config.Projects[name]; ok {
		return proj.Settings
	}
	return p.config.Settings
}

// Credential implements fleet.Credentialer.
func (p *Place) Credential(project string) string { return p.projectSettings(project).Credential }

// MaxCost implements fleet.CostLimiter. The roles of templates have no limits of their own.
func (p *Place) MaxCost(project, _ string) fleet.Micros {
	return fleet.MicrosOf(p.projectSettings(project).MaxCostUSD)
}

// Grant implements fleet.Delegator.
func (p *Place) Grant(project, role string) *fleet.Grant {
	for name, g := range p.projectSettings(project).Delegate {
		if strings.EqualFold(name, role) {
			return g.WithDefaults(project)
		}
	}
	return nil
}
