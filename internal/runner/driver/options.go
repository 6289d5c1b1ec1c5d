package driver

import (
	"slices"

	"fleet/internal/fleet"
)

// taskOptions are the options of tasks and roles that each kind of driver supports. Roles have more options, which other code
// checks. Fleet itself enforces max_cost_usd, but only for programs that report their usage while they work.
var taskOptions = map[string][]string{
	"claude":  {fleet.OptionModel, fleet.OptionEffort, fleet.OptionMaxTurns, fleet.OptionMaxCost, fleet.OptionAppendSystemPrompt, fleet.OptionOutputSchema, fleet.OptionAttachments},
	"codex":   {fleet.OptionModel, fleet.OptionEffort, fleet.OptionMaxCost, fleet.OptionAppendSystemPrompt, fleet.OptionOutputSchema, fleet.OptionAttachments},
	"shell":   {fleet.OptionAttachments},
	"command": {fleet.OptionAttachments},
	"acp":     {fleet.OptionModel, fleet.OptionMaxCost, fleet.OptionAppendSystemPrompt, fleet.OptionOutputSchema, fleet.OptionAttachments},
	Cagent:    {fleet.OptionModel, fleet.OptionMaxTurns, fleet.OptionMaxCost, fleet.OptionAppendSystemPrompt, fleet.OptionOutputSchema},
}

// effortsOf are the values of the option effort, by kind of driver. Other kinds do not support the option.
var effortsOf = map[string][]string{
	"claude": {"low", "medium", "high", "xhigh", "max"},
	"codex":  {"minimal", "low", "medium", "high", "xhigh"},
}

// CheckOptions returns INVALID_ARGUMENT, with the option's name, if an option is invalid or the driver does not support it. A
// driver would ignore such an option, so nobody would notice that a limit does not hold.
func CheckOptions(d Driver, o fleet.TaskOptions) error {
	if err := o.Validate(); err != nil {
		return err
	}
	kind := kindOf(d)
	err := o.CheckSupported(taskOptions[kind], "the driver "+kind, func(option string) (kinds []string) {
		for _, k := range Kinds {
			if slices.Contains(taskOptions[k], option) {
				kinds = append(kinds, k)
			}
		}
		return kinds
	})
	if err != nil {
		return err
	}
	if known := effortsOf[kind]; o.Effort != "" && !slices.Contains(known, o.Effort) {
		return fleet.InvalidField(fleet.OptionEffort, "effort is %q: the driver %s has %s", o.Effort, kind, fleet.JoinNames(known))
	}
	return nil
}

// SupportedOptions returns the names of the options of tasks that the driver supports.
func SupportedOptions(d Driver) []string { return taskOptions[kindOf(d)] }

func kindOf(d Driver) string {
	switch d.(type) {
	case claudeCode:
		return "claude"
	case codex:
		return "codex"
	case acpDriver:
		return "acp"
	case shell:
		return "shell"
	case modelDriver:
		return Cagent
	}
	return "command"
}
