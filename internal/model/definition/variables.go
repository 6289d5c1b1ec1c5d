package definition

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/docker/cagent/pkg/config"
	"github.com/docker/cagent/pkg/model/provider"

	"fleet/internal/fleet"
)

// providerVariables lists the variables that the library's client of each provider reads.
var providerVariables = map[string][]string{
	"anthropic": {"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"},
	"openai":    {"OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"},
	"google": {
		"GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL", "GOOGLE_GENAI_USE_VERTEXAI",
		"GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_CLOUD_REGION", "GOOGLE_APPLICATION_CREDENTIALS",
	},
	"dmr": {"MODEL_RUNNER_HOST"},
}

// variables returns the names of the environment variables that a run of the agent may read: those that its definition and its
// configuration name, and those of the providers of its models. Registered tools may use only the variables in toolEnv. lookup
// finds the server's variables. models are models that the run may use in addition to those of the definition.
func (d *ParsedDefinition) variables(c *fleet.AgentConfig, toolEnv []string, lookup func(string) (string, bool), models ...string) []string {
	agentConfig, _ := json.Marshal([]any{c.MCPServers, c.SystemPrompt}) // texts can always be encoded
	names := slices.Concat(config.GatherEnvVarsForModels(d.Config), variableNames(c.Document), variableNames(string(agentConfig)))
	tools, _ := json.Marshal(c.Tools) // their parameters are valid JSON
	for _, name := range variableNames(string(tools)) {
		if slices.Contains(toolEnv, name) {
			names = append(names, name)
		}
	}
	for _, a := range d.Config.Agents {
		models = append(models, strings.Split(a.Model, ",")...)
	}
	providers := map[string]bool{}
	for _, m := range d.Config.Models {
		providers[m.Provider] = true
		names = append(names, m.TokenKey)
		for _, rule := range m.Routing {
			models = append(models, rule.Model)
		}
	}
	for _, p := range d.Config.Providers {
		names = append(names, p.TokenKey)
	}
	for _, m := range models {
		m = strings.TrimSpace(m)
		p, _, hasProvider := strings.Cut(m, "/")
		if !hasProvider && (m == "" || m == "auto") {
			p = config.AutoModelConfig(context.Background(), "", environment(lookup)).Provider
		}
		providers[p] = true
	}
	for p := range providers {
		names = append(names, provider.Aliases[p].TokenEnvVar, keyVariables[p])
		names = append(names, providerVariables[p]...)
	}
	return slices.DeleteFunc(names, func(n string) bool { return n == "" })
}

// environment provides variables to the library, as its environment.Provider.
type environment func(name string) (string, bool)

// Get implements environment.Provider.
func (e environment) Get(_ context.Context, name string) (string, bool) { return e(name) }

var (
	referencePattern  = regexp.MustCompile(`\$\{[^}]*\}|\$[A-Za-z_][A-Za-z0-9_]*`)
	identifierPattern = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)
)

// variableNames returns the identifiers in references such as $A, ${A} and ${env.A || "none"}. They may be names of variables.
func variableNames(text string) (names []string) {
	for _, r := range referencePattern.FindAllString(text, -1) {
		names = append(names, identifierPattern.FindAllString(r, -1)...)
	}
	return names
}
