package local

import "fleet/internal/fleet"

// MaxCost implements fleet.CostLimiter.
func (p *Place) MaxCost(project, role string) fleet.Micros {
	proj, err := p.project(project)
	if err != nil {
		return 0
	}
	r, err := proj.role(role)
	if err != nil {
		return 0
	}
	return fleet.MicrosOf(r.MaxCostUSD)
}
