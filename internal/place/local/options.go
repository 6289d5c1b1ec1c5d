package local

import (
	"fleet/internal/fleet"
	"fleet/internal/runner/driver"
)

// CheckOptions implements fleet.Optioner.
func (p *Place) CheckOptions(a fleet.Agent, o fleet.TaskOptions) error {
	proj, err := p.agentProject(a)
	if err != nil {
		return err
	}
	return driver.CheckOptions(proj.driver, o)
}
