package fake

import "fleet/internal/fleet"

// CheckOptions implements fleet.Optioner. Agents with the role operator support only the choice of a model.
func (p *Place) CheckOptions(a fleet.Agent, o fleet.TaskOptions) error {
	if a.Role != "operator" {
		return nil
	}
	return o.CheckSupported([]string{fleet.OptionModel}, "the driver of "+a.Name, nil)
}
