package fleet

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ParameterType is the type of a parameter's value. Values are always texts.
type ParameterType string

// The types of parameters.
const (
	ParameterText   ParameterType = "text"
	ParameterNumber ParameterType = "number"
	ParameterBool   ParameterType = "bool"
	ParameterList   ParameterType = "list" // a JSON array of texts
)

// Parameter is a value that a caller can choose when an agent of a project is created.
type Parameter struct {
	Name        string
	DisplayName string
	Description string
	Type        ParameterType
	Required    bool   // there is no default
	Default     string // the value if the caller chooses none
	// Options are the valid values; empty: every value of the type is valid. A list may have several of them.
	Options []string
	// Min and Max limit a number; nil: no limit.
	Min, Max *int64
	// Pattern is a regular expression that the value must match, unless it is a list; empty: no pattern. PatternError says for
	// people what the pattern means.
	Pattern, PatternError string
}

// MaxParameters is the largest number of parameters in a request.
const MaxParameters = 100

// CheckParameters returns INVALID_ARGUMENT if the values cannot be used for an agent of the project in the role. The error names
// the parameter, and the values that the parameter accepts.
func (p Project) CheckParameters(role Role, values map[string]string) error {
	if len(values) > MaxParameters {
		return InvalidField("parameters", "parameters has %d values: give at most %d", len(values), MaxParameters)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		i := slices.IndexFunc(p.Parameters, func(q Parameter) bool { return q.Name == name })
		if i < 0 {
			return parameterError(name, "the project %q has no parameter %q: %s", p.Name, Shorten(name, 60), p.parameterNames())
		}
		if roleValue, ok := role.Parameters[name]; ok {
			return parameterError(name, "the role %q sets the parameter %q to %q: leave it out, or choose another role", role.Name, name, roleValue)
		}
		if why := p.Parameters[i].problemWith(values[name]); why != "" {
			return parameterError(name, "the parameter %q of the project %q cannot be %q: %s", name, p.Name, Shorten(values[name], 60), why).
				With("options", strings.Join(p.Parameters[i].Options, ", "))
		}
	}
	for _, q := range p.Parameters {
		_, callerSets := values[q.Name]
		_, roleSets := role.Parameters[q.Name]
		if q.Required && !callerSets && !roleSets {
			return parameterError(q.Name, "the project %q needs the parameter %q%s: %s", p.Name, q.Name, q.meaning(), q.accepts()).
				With("options", strings.Join(q.Options, ", "))
		}
	}
	return nil
}

func parameterError(name, format string, args ...any) *Error {
	return InvalidField("parameters", format, args...).With("parameter", Shorten(name, 60))
}

func (p Project) parameterNames() string {
	names := make([]string, 0, len(p.Parameters))
	for _, q := range p.Parameters {
		names = append(names, q.Name)
	}
	if len(names) == 0 {
		return "it has none"
	}
	return "it has " + JoinNames(names)
}

// meaning returns the first line of the description or, without one, the display name, in parentheses; "" if there is neither.
func (p Parameter) meaning() string {
	for _, text := range []string{p.Description, p.DisplayName} {
		if line, _, _ := strings.Cut(strings.TrimSpace(text), "\n"); line != "" && line != p.Name {
			return " (" + Shorten(line, 120) + ")"
		}
	}
	return ""
}

// accepts says for people which values are valid.
func (p Parameter) accepts() string {
	switch {
	case len(p.Options) > 0 && p.Type == ParameterList:
		return "give a JSON list with any of " + JoinNames(p.Options)
	case len(p.Options) > 0:
		return "give one of " + JoinNames(p.Options)
	case p.Type == ParameterBool:
		return "give true or false"
	case p.Type == ParameterList:
		return "give a JSON list of texts"
	case p.Type == ParameterNumber:
		return "give " + p.numberRange()
	case p.Pattern != "" && p.PatternError != "":
		return Shorten(p.PatternError, 200)
	case p.Pattern != "":
		return "give a text that matches " + Shorten(p.Pattern, 200)
	}
	return "give a text"
}

// numberRange says for people which numbers are valid.
func (p Parameter) numberRange() string {
	switch {
	case p.Min != nil && p.Max != nil:
		return "a number from " + strconv.FormatInt(*p.Min, 10) + " to " + strconv.FormatInt(*p.Max, 10)
	case p.Min != nil:
		return "a number of at least " + strconv.FormatInt(*p.Min, 10)
	case p.Max != nil:
		return "a number of at most " + strconv.FormatInt(*p.Max, 10)
	}
	return "a number"
}

// problemWith says for people which values are valid; "" if the value is valid.
func (p Parameter) problemWith(value string) string {
	valid := true
	switch p.Type {
	case ParameterBool:
		valid = value == "true" || value == "false"
	case ParameterNumber:
		n, err := strconv.ParseInt(value, 10, 64)
		valid = err == nil && (p.Min == nil || n >= *p.Min) && (p.Max == nil || n <= *p.Max)
	case ParameterList:
		var list []string
		valid = json.Unmarshal([]byte(value), &list) == nil
		for _, item := range list {
			valid = valid && (len(p.Options) == 0 || slices.Contains(p.Options, item))
		}
		if valid {
			return ""
		}
		return p.accepts()
	}
	if valid && len(p.Options) > 0 {
		valid = slices.Contains(p.Options, value)
	}
	if valid && p.Pattern != "" {
		// The host checks the value too. If Go cannot compile the pattern, only the host checks it.
		if pattern, err := regexp.Compile(p.Pattern); err == nil {
			valid = pattern.MatchString(value)
		}
	}
	if valid {
		return ""
	}
	return p.accepts()
}
