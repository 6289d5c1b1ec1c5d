package coder

import (
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
