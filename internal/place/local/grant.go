package local

import "fleet/internal/fleet"

// Grant implements fleet.Delegator.
func (p *Place) Grant(project, role string) *fleet.Grant {
	proj, err := p.project(project)
	if err != nil {
		return nil
	}
	r, err := proj.role(role)
	if err != nil {
		return nil
	}
	return r.Delegate.WithDefaults(proj.Name)
}
