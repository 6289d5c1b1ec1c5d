package local

import (
	"fleet/internal/fleet"
	"fleet/internal/runner/driver"
)

// CheckOptions implements fleet.Optioner.
func (b *Place) CheckOptions(a fleet.Agent, o fleet.TaskOptions) error {
	p, err := b.kind(a)
	if err != nil {
		return err
	}
	return driver.CheckOptions(p.driver, o)
}
