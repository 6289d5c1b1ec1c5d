//go:build cgo

package cagent

import (
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/runner/driver"
)

// Options implements driver.OptionsDriver.
func (processDriver) Options() (kind string, supported []string) {
	return Driver, []string{fleet.OptionModel, fleet.OptionMaxTurns, fleet.OptionAppendSystemPrompt, fleet.OptionOutputSchema}
}

// CheckOptions implements fleet.Optioner.
func (b *Place) CheckOptions(a fleet.Agent, o fleet.TaskOptions) error {
	if err := driver.CheckOptions(processDriver{}, o); err != nil || o.Model == "" {
		return err
	}
	x := b.agent(a.UID)
	if x == nil {
		return nil // the task cannot start
	}
	d, err := parse([]byte(x.rec.document()))
	if err != nil {
		return nil //nolint:nilerr // the task fails, and says why
	}
	if _, ok := d.config.Models[o.Model]; !ok && o.Model != "auto" && !strings.Contains(o.Model, "/") {
		return fleet.Invalid(fleet.ReasonInvalidArgument, fleet.OptionModel, "model is %q: give provider/model, or the name of a model in the agent's definition", o.Model)
	}
	return nil
}
