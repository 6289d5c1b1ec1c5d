//go:build cgo

package cagent

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/docker/cagent/pkg/config"
	"github.com/docker/cagent/pkg/model/provider"

	"fleet/internal/runner"
)

// basics are variables without secrets that programs need. They include the variables for network access.
var basics = []string{
	"PATH", "SHELL", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
}

// providerVariables lists the variables that the clients of a provider read.
var providerVariables = map[string][]string{
	"anthropic": {"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"},
	"openai":    {"OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"},
	"google": {
		"GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL", "GOOGLE_GENAI_USE_VERTEXAI",
		"GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_CLOUD_REGION", "GOOGLE_APPLICATION_CREDENTIALS",
	},
	"dmr": {"MODEL_RUNNER_HOST"},
}

// processEnviron returns the environment of a run in its own process. It has the basic variables and the variables that
// the definition and the configuration name, including the keys of models. model is the model of the task,
// empty if the agent's is used. own are the runner's variables.
func (b *Place) processEnviron(x *member, d *definition, model string, own map[string]string) []string {
	env := map[string]string{}
	for _, name := range slices.Concat(basics, x.rec.Config.PassEnv, b.variables(x.rec, d, model)) {
		if v, ok := b.config.LookupEnv(name); ok && !serversOwn(name) {
			env[name] = v
		}
	}
	env["HOME"], env["TMPDIR"] = x.home.path("home"), x.home.path("tmp")
	maps.Copy(env, own)
	return runner.Environ(env)
}

// gitEnviron returns an environment in which git finds the configuration of the server's user.
func (b *Place) gitEnviron() []string {
	env := map[string]string{}
	for _, name := range []string{"PATH", "HOME", "XDG_CONFIG_HOME"} {
		if v, ok := b.config.LookupEnv(name); ok {
			env[name] = v
		}
	}
	return runner.Environ(env)
}

// variables returns the names of the environment variables that a run of the agent may read. model is the model of the run;
// empty if the agent's is used.
func (b *Place) variables(rec *record, d *definition, model string) []string {
	agentConfig, _ := json.Marshal([]any{rec.Config.MCPServers, rec.Config.System}) // texts can always be encoded
	names := slices.Concat(config.GatherEnvVarsForModels(d.config), named(rec.document()), named(string(agentConfig)))
	if tools, _ := json.Marshal(rec.Config.Tools); len(tools) > 0 {
		for _, name := range named(string(tools)) {
			if slices.Contains(b.config.ToolEnv, name) {
				names = append(names, name)
			}
		}
	}
	models := []string{cmp.Or(model, rec.Config.Model), b.config.Model}
	for _, a := range d.config.Agents {
		models = append(models, strings.Split(a.Model, ",")...)
	}
	providers := map[string]bool{}
	for _, m := range d.config.Models {
		providers[m.Provider] = true
		names = append(names, m.TokenKey)
		for _, r := range m.Routing {
			models = append(models, r.Model)
		}
	}
	for _, p := range d.config.Providers {
		names = append(names, p.TokenKey)
	}
	for _, m := range models {
		m = strings.TrimSpace(m)
		p, _, isRef := strings.Cut(m, "/")
		if !isRef && (m == "" || m == "auto") {
			p = config.AutoModelConfig(context.Background(), "", b.secrets).Provider
		}
		providers[p] = true
	}
	for p := range providers {
		names = append(names, provider.Aliases[p].TokenEnvVar, keys[p])
		names = append(names, providerVariables[p]...)
	}
	return slices.DeleteFunc(names, func(n string) bool { return n == "" })
}

var (
	references = regexp.MustCompile(`\$\{[^}]*\}|\$[A-Za-z_][A-Za-z0-9_]*`)
	identifier = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)
)

// named returns the identifiers in references such as $A, ${A} and ${env.A || "none"}. They may be names of variables.
func named(text string) (names []string) {
	for _, r := range references.FindAllString(text, -1) {
		names = append(names, identifier.FindAllString(r, -1)...)
	}
	return names
}
