package providers

import (
	"fmt"
	"slices"
	"strings"
)

// unverifiedSource marks a row that was not checked against the vendor's documentation.
const unverifiedSource = "unverified"

// parameterRow is a row of parameterTable. It says which keys of a request's config certain models accept.
type parameterRow struct {
	vendor    string     // matches Provider.Vendor; empty matches any vendor
	protocols []Protocol // empty matches any protocol
	models    []string   // prefixes of the models' names; empty matches all models
	keys      []string   // accepted keys, in addition to model and system, which every model accepts
	// noStreamOptions means that the vendor refuses requests with stream_options, and reports the usage without them.
	noStreamOptions bool
	source          string // where the vendor documents the keys, or unverifiedSource
}

var (
	samplingKeys       = []string{"max_tokens", "temperature", "top_p"}
	penaltyKeys        = []string{"frequency_penalty", "presence_penalty"}
	chatProtocols      = []Protocol{ProtocolOpenAI}
	responsesProtocols = []Protocol{ProtocolResponses}
)

// reasoningModels are prefixes of the names of OpenAI's reasoning models.
var reasoningModels = []string{"o1", "o3", "o4", "gpt-5", "codex"}

// parameterTable is searched in order. The first row that matches a model is used.
var parameterTable = []parameterRow{
	{
		vendor: "anthropic", keys: append([]string{"thinking_budget"}, samplingKeys...),
		source: "anthropic-sdk-go v1.19.0, message.go, MessageNewParams; docs.claude.com/en/docs/build-with-claude/extended-thinking",
	},
	{
		vendor: "openai", protocols: chatProtocols, models: []string{"gpt-5-chat"}, keys: slices.Concat(samplingKeys, penaltyKeys),
		source: unverifiedSource,
	},
	{
		vendor: "openai", protocols: chatProtocols, models: reasoningModels, keys: []string{"max_tokens", "reasoning_effort"},
		source: "openai-go v3.15.0, chatcompletion.go, ChatCompletionNewParams; platform.openai.com/docs/guides/reasoning",
	},
	{
		vendor: "openai", protocols: chatProtocols, keys: slices.Concat(samplingKeys, penaltyKeys),
		source: "openai-go v3.15.0, chatcompletion.go, ChatCompletionNewParams",
	},
	{
		vendor: "openai", protocols: responsesProtocols, models: reasoningModels, keys: []string{"max_tokens", "reasoning_effort"},
		source: "openai-go v3.15.0, responses/response.go, ResponseNewParams; platform.openai.com/docs/guides/reasoning",
	},
	{
		vendor: "openai", protocols: responsesProtocols, keys: samplingKeys,
		source: "openai-go v3.15.0, responses/response.go, ResponseNewParams",
	},
	{
		vendor: "google", protocols: []Protocol{ProtocolGoogle}, models: []string{"gemini-2.5", "gemini-3"},
		keys:   slices.Concat(samplingKeys, penaltyKeys, []string{"thinking_budget"}),
		source: "google.golang.org/genai v1.40.0, types.go, GenerateContentConfig and ThinkingConfig",
	},
	{
		vendor: "google", protocols: []Protocol{ProtocolGoogle}, keys: slices.Concat(samplingKeys, penaltyKeys),
		source: "google.golang.org/genai v1.40.0, types.go, GenerateContentConfig",
	},
	{
		vendor: "google", protocols: chatProtocols, models: []string{"gemini-2.5", "gemini-3"}, keys: slices.Concat(samplingKeys, penaltyKeys, []string{"reasoning_effort"}),
		source: "ai.google.dev/gemini-api/docs/openai",
	},
	{vendor: "google", protocols: chatProtocols, keys: slices.Concat(samplingKeys, penaltyKeys), source: unverifiedSource},
	{
		vendor: "mistral", keys: slices.Concat(samplingKeys, penaltyKeys), noStreamOptions: true,
		source: "docs.mistral.ai/api, ChatCompletionRequest, which forbids other fields",
	},
	{
		vendor: "deepseek", models: []string{"deepseek-reasoner"}, keys: []string{"max_tokens"},
		source: "api-docs.deepseek.com/guides/reasoning_model",
	},
	{
		vendor: "deepseek", keys: slices.Concat(samplingKeys, penaltyKeys),
		source: "api-docs.deepseek.com/api/create-chat-completion",
	},
	{
		vendor: "xai", models: []string{"grok-4.3", "grok-4.5", "grok-3-mini"}, keys: append([]string{"reasoning_effort"}, samplingKeys...),
		source: "docs.x.ai/docs/guides/reasoning",
	},
	{vendor: "xai", models: []string{"grok-4", "grok-code"}, keys: samplingKeys, source: "docs.x.ai/docs/guides/reasoning"},
	{vendor: "xai", keys: slices.Concat(samplingKeys, penaltyKeys), source: unverifiedSource},
	{vendor: "qwen", keys: append([]string{"presence_penalty"}, samplingKeys...), source: unverifiedSource},
	{
		vendor: "ollama", keys: slices.Concat(samplingKeys, penaltyKeys, []string{"reasoning_effort"}),
		source: "docs.ollama.com/api/openai-compatibility",
	},
	// These rows are for servers of other vendors. A server may refuse a key that its model does not accept, and OpenAI's
	// models accept the same keys on every server.
	{protocols: chatProtocols, models: []string{"o1", "o3-", "o4-", "gpt-5"}, keys: []string{"max_tokens", "reasoning_effort"}, source: unverifiedSource},
	{protocols: responsesProtocols, models: reasoningModels, keys: []string{"max_tokens", "reasoning_effort"}, source: unverifiedSource},
	{keys: slices.Concat(samplingKeys, penaltyKeys, []string{"reasoning_effort", "thinking_budget"}), source: unverifiedSource},
}

// vendors returns the vendors that have rows.
func vendors() (names []string) {
	for _, r := range parameterTable {
		if r.vendor != "" && !slices.Contains(names, r.vendor) {
			names = append(names, r.vendor)
		}
	}
	return names
}

// parameterRowOf returns the first row that matches the provider and the model.
func parameterRowOf(p *Provider, model string) *parameterRow {
	model = strings.ToLower(model)
	i := slices.IndexFunc(parameterTable, func(r parameterRow) bool {
		return (r.vendor == "" || r.vendor == p.Vendor) && (len(r.protocols) == 0 || slices.Contains(r.protocols, p.Protocol)) &&
			(len(r.models) == 0 || slices.ContainsFunc(r.models, func(m string) bool { return strings.HasPrefix(model, m) }))
	})
	return &parameterTable[i] // the last row matches everything
}

// dropUnsupported returns the config without the keys that the model does not accept, and a warning for each removed key.
func dropUnsupported(p *Provider, config map[string]any) (accepted map[string]any, warnings []string) {
	if p.Kind == KindCLI {
		return config, nil
	}
	model := modelOf(p, config)
	row := parameterRowOf(p, model)
	accepted = map[string]any{}
	for _, key := range configKeys[p.Protocol] {
		value, isSet := config[key]
		switch {
		case !isSet:
		case key != "model" && key != "system" && !slices.Contains(row.keys, key):
			warnings = append(warnings, fmt.Sprintf("The model %q does not accept %s, so it was left out", shorten(model), key))
		default:
			accepted[key] = value
		}
	}
	if p.Protocol != ProtocolAnthropic {
		return accepted, warnings
	}
	dropIfBoth := func(key, other string) {
		if accepted[key] != nil && accepted[other] != nil {
			delete(accepted, key)
			warnings = append(warnings, fmt.Sprintf("The model %q does not accept %s together with %s, so %s was left out", shorten(model), key, other, key))
		}
	}
	dropIfBoth("temperature", "thinking_budget")
	dropIfBoth("top_p", "thinking_budget")
	dropIfBoth("top_p", "temperature")
	return accepted, warnings
}
