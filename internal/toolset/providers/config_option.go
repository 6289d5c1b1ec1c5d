package providers

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"fleet/internal/fleet"
)

// configOption describes the values that a key of a request's config accepts.
type configOption struct {
	values  string // describes the accepted values for people
	accepts func(v any) bool
}

func number(low, high float64) configOption {
	return configOption{fmt.Sprintf("a number from %g to %g", low, high), func(v any) bool {
		n, ok := v.(float64)
		return ok && n >= low && n <= high
	}}
}

func wholeNumber(low, high float64) configOption {
	return configOption{fmt.Sprintf("a whole number from %.0f to %.0f", low, high), func(v any) bool {
		n, ok := v.(float64)
		return ok && n >= low && n <= high && n == math.Trunc(n)
	}}
}

// reasoningEfforts are the reasoning levels of OpenAI's models.
var reasoningEfforts = []string{"minimal", "low", "medium", "high"}

// configOptions are the keys of a request's config for models. No key sets a model's address or credentials, because a caller
// could then make the server send its own key to the caller's address.
var configOptions = map[string]configOption{
	"model":             {"the name of a model, on one line of at most 200 characters", isModelName},
	"temperature":       number(0, 2),
	"top_p":             number(0, 1),
	"max_tokens":        wholeNumber(1, 1_000_000),
	"frequency_penalty": number(-2, 2),
	"presence_penalty":  number(-2, 2),
	"thinking_budget": {"a whole number of tokens from 1024 to 200000", func(v any) bool {
		return wholeNumber(1024, 200_000).accepts(v)
	}},
	"reasoning_effort": {"one of " + strings.Join(reasoningEfforts, ", "), func(v any) bool {
		s, ok := v.(string)
		return ok && slices.Contains(reasoningEfforts, s)
	}},
	"system": {"a text of at most 65536 bytes", func(v any) bool {
		s, ok := v.(string)
		return ok && len(s) <= 64<<10 && checkText("", s) == nil
	}},
}

// configKeys are the keys that each protocol accepts. dropUnsupported removes those that a particular model does not
// accept.
var configKeys = map[Protocol][]string{
	ProtocolAnthropic: {"max_tokens", "model", "system", "temperature", "thinking_budget", "top_p"},
	ProtocolGoogle:    {"frequency_penalty", "max_tokens", "model", "presence_penalty", "system", "temperature", "thinking_budget", "top_p"},
	ProtocolOllama:    {"frequency_penalty", "max_tokens", "model", "presence_penalty", "reasoning_effort", "system", "temperature", "top_p"},
	ProtocolOpenAI:    {"frequency_penalty", "max_tokens", "model", "presence_penalty", "reasoning_effort", "system", "temperature", "top_p"},
	ProtocolResponses: {"max_tokens", "model", "reasoning_effort", "system", "temperature", "top_p"},
}

// isModelName reports whether the value can be the name of a model.
func isModelName(v any) bool {
	s, ok := v.(string)
	return ok && s != "" && len(s) <= 200 && strings.TrimSpace(s) == s && !strings.HasPrefix(s, "-") &&
		!strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// acceptedKeys returns the keys that the config of a request to the provider can have.
func (p *Provider) acceptedKeys() []string {
	switch {
	case p.Kind != KindCLI:
		return configKeys[p.Protocol]
	case !p.resolvedDriver.NeedsCommand:
		return []string{"model", "system"}
	case slices.ContainsFunc(p.Command, func(a string) bool { return strings.Contains(a, "{{.Model}}") }):
		return []string{"model", "system"}
	}
	return []string{"system"}
}

// checkConfig refuses keys that the provider does not accept, and invalid values.
func checkConfig(p *Provider, config map[string]any) error {
	accepted := p.acceptedKeys()
	for _, key := range slices.Sorted(maps.Keys(config)) {
		field := "config." + shorten(key)
		if !slices.Contains(accepted, key) {
			return fleet.InvalidField(field, "config has the key %q, which the agent %q does not accept: it accepts %s",
				shorten(key), p.Name, strings.Join(accepted, ", "))
		}
		if o := configOptions[key]; !o.accepts(config[key]) {
			return fleet.InvalidField(field, "config.%s is %s: it must be %s", key, describe(config[key]), o.values)
		}
	}
	return nil
}

// describe returns the text that an error shows for a value.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("the string %q", shorten(v))
	case float64:
		return fmt.Sprintf("the number %g", v)
	case bool:
		return fmt.Sprintf("%t", v)
	case []any:
		return "a list"
	}
	return "an object"
}
