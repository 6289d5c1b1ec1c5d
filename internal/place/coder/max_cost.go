package coder

import "fleet/internal/fleet"

// MaxCost implements fleet.CostLimiter. The roles of templates have no limits of their own.
func (p *Place) MaxCost(project, _ string) fleet.Micros {
	if proj, ok := p.config.Projects[project]; ok {
		return fleet.MicrosOf(proj.MaxCostUSD)
	}
	return fleet.MicrosOf(p.config.MaxCostUSD)
}
