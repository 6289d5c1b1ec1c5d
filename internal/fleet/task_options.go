package fleet

import (
	"encoding/json"
	"regexp"
	"slices"
)

// TaskOptions are options of one task for its agent's program. They take precedence over those of the agent's role. The JSON
// names are those of the API.
type TaskOptions struct {
	Model              string   `json:"model,omitempty"`
	Effort             string   `json:"effort,omitempty"`
	MaxTurns           *int     `json:"max_turns,omitempty"`
	MaxCostUSD         *float64 `json:"max_cost_usd,omitempty"`
	AppendSystemPrompt string   `json:"append_system_prompt,omitempty"`
	// OutputSchema is the JSON Schema of an object that the task has to return.
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
	// Attachments is how many attachments the task has.
	Attachments int `json:"attachments,omitempty"`
	// Attached is set if the task consists of a person using the agent's program on a terminal. No caller can set it.
	Attached *AttachedTerminal `json:"attached,omitempty"`
	// Continues is the id of the task whose work this one continues: it makes changes that a review demands, or resolves a
	// conflict.
	Continues string `json:"continues,omitempty"`
}

// The names of the task options, as in the API.
const (
	OptionModel              = "model"
	OptionEffort             = "effort"
	OptionMaxTurns           = "max_turns"
	OptionMaxCost            = "max_cost_usd"
	OptionAppendSystemPrompt = "append_system_prompt"
	OptionOutputSchema       = "output_schema"
	OptionAttachments        = "attachments"
)

// Limits of the task options.
const (
	MaxTaskTurns          = 100_000
	MaxTaskCostUSD        = 1_000_000
	maxModelName          = 200      // in bytes
	maxEffort             = 20       // in bytes
	maxAppendSystemPrompt = 64 << 10 // in bytes
	maxOutputSchema       = 64 << 10 // in bytes
)

// MaxTaskOutput is the largest output of a task with a schema, in bytes.
const MaxTaskOutput = 256 << 10

// SchemaCompiler compiles a JSON Schema. check returns how a JSON value violates the schema; nothing if it does not.
type SchemaCompiler func(schema []byte) (check func(value []byte) []string, err error)

// These are arguments of programs, so they must not look like flags.
var (
	modelNamePattern = regexp.MustCompile(`^[A-Za-z0-9][^\s\x00-\x1f]*$`)
	effortPattern    = regexp.MustCompile(`^[a-z]+$`)
)

// Names returns the names of the options that are set.
func (o TaskOptions) Names() (names []string) {
	add := func(name string, isSet bool) {
		if isSet {
			names = append(names, name)
		}
	}
	add(OptionModel, o.Model != "")
	add(OptionEffort, o.Effort != "")
	add(OptionMaxTurns, o.MaxTurns != nil)
	add(OptionMaxCost, o.MaxCostUSD != nil)
	add(OptionAppendSystemPrompt, o.AppendSystemPrompt != "")
	add(OptionOutputSchema, len(o.OutputSchema) > 0)
	add(OptionAttachments, o.Attachments > 0)
	return names
}

// IsSet reports whether an option is set that a caller can choose.
func (o TaskOptions) IsSet() bool { return len(o.Names()) > 0 }

// Validate returns INVALID_ARGUMENT if a value is not valid for any program.
func (o TaskOptions) Validate() error {
	switch {
	case o.Model != "" && (len(o.Model) > maxModelName || !modelNamePattern.MatchString(o.Model)):
		return InvalidField(OptionModel, "model is %q: give the name of a model without spaces, which begins with a letter or a digit and has at most %d bytes", Shorten(o.Model, 60), maxModelName)
	case o.Effort != "" && (len(o.Effort) > maxEffort || !effortPattern.MatchString(o.Effort)):
		return InvalidField(OptionEffort, "effort is %q: give a word such as low, medium or high", Shorten(o.Effort, 60))
	case o.MaxTurns != nil && (*o.MaxTurns < 1 || *o.MaxTurns > MaxTaskTurns):
		return InvalidField(OptionMaxTurns, "max_turns is %d: give 1 to %d", *o.MaxTurns, MaxTaskTurns)
	case o.MaxCostUSD != nil && !(*o.MaxCostUSD > 0 && *o.MaxCostUSD <= MaxTaskCostUSD): // also refuses NaN
		return InvalidField(OptionMaxCost, "max_cost_usd is %g: give more than 0 and at most %d", *o.MaxCostUSD, MaxTaskCostUSD)
	case len(o.AppendSystemPrompt) > maxAppendSystemPrompt:
		return InvalidField(OptionAppendSystemPrompt, "append_system_prompt has %d bytes: give at most %d", len(o.AppendSystemPrompt), maxAppendSystemPrompt)
	case len(o.OutputSchema) > maxOutputSchema:
		return InvalidField(OptionOutputSchema, "output_schema has %d bytes: give at most %d", len(o.OutputSchema), maxOutputSchema)
	}
	return nil
}

// CheckSupported returns INVALID_ARGUMENT for the first option that is set and not in the list; nil if there is none. The
// parameter who names, in the error, the driver or place that does not support the option. The function driversWith returns the
// names of the drivers that support an option. If it is nil, the error names claude, which supports all.
func (o TaskOptions) CheckSupported(supported []string, who string, driversWith func(option string) []string) error {
	for _, name := range o.Names() {
		if slices.Contains(supported, name) {
			continue
		}
		alternatives := "claude"
		if driversWith != nil {
			alternatives = JoinNames(driversWith(name))
		}
		return InvalidField(name, "%s does not support %s: leave it out, or use a driver that does: %s", who, name, alternatives)
	}
	return nil
}

// Optioner is implemented by a place whose agents support options of single tasks.
type Optioner interface {
	// CheckOptions returns INVALID_ARGUMENT, with the name of the option, if the agent's program does not support an option. It
	// sends no request.
	CheckOptions(a Agent, o TaskOptions) error
}

// CheckOptions returns INVALID_ARGUMENT, with the name of the option, if an agent of the place does not support an option.
func CheckOptions(p Place, a Agent, o TaskOptions) error {
	if !o.IsSet() {
		return nil
	}
	if c, ok := p.(Optioner); ok {
		return c.CheckOptions(a, o)
	}
	return o.CheckSupported(nil, "the place "+p.Traits().Name, nil)
}
