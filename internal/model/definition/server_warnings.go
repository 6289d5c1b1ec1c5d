package definition

import (
	"fmt"
	"slices"
	"strings"

	"github.com/docker/cagent/pkg/config"
	"github.com/docker/cagent/pkg/config/latest"
	"github.com/docker/cagent/pkg/model/provider"
	"github.com/docker/cagent/pkg/permissions"

	"fleet/internal/fleet"
)

// builtinProviders are the providers that the library implements itself. Its other providers are in provider.Aliases.
var builtinProviders = []string{"anthropic", "auto", "dmr", "google", "openai"}

// changingTools lists, for each type of toolset, the tools that change something.
var changingTools = map[string][]string{
	"shell":      {"shell", "run_background_job", "stop_background_job"},
	"filesystem": {"edit_file", "write_file"},
	"lsp":        {"lsp_rename", "lsp_format"},
}

// serverWarnings returns warnings about the parts of the definition that will not work on this server: models without a key, providers that
// this build does not have, and tools that are refused, always or with some arguments. approvedTypes lists the types of toolsets whose tools
// need no permission.
func (d *ParsedDefinition) serverWarnings(lookup func(string) (string, bool), approvedTypes []string) (warnings []string) {
	for _, name := range config.GatherEnvVarsForModels(d.Config) {
		if v, ok := lookup(name); !ok || v == "" {
			warnings = append(warnings, fmt.Sprintf("its model needs %s, which is not set in the server's environment", name))
		}
	}
	for _, name := range d.Agents {
		a := d.Config.Agents[name]
		for model := range strings.SplitSeq(a.Model, ",") {
			if p := d.providerOf(strings.TrimSpace(model)); p != "" && !d.hasProvider(p) {
				warnings = append(warnings, fmt.Sprintf("agent %q: this build does not have the provider %q of its model", name, fleet.Shorten(p, 60)))
			}
		}
		refused, limited := d.refusedTools(&a, approvedTypes)
		if len(limited) > 0 {
			warnings = append(warnings, fmt.Sprintf("agent %q: %s may only be used with the arguments that permissions.allow names, since nobody is there to be asked about others",
				name, strings.Join(limited, ", ")))
		}
		if len(refused) > 0 {
			warnings = append(warnings, fmt.Sprintf("agent %q: these tools are refused, since nobody is there to be asked: %s. Name them under permissions.allow, in version \"3\" of definitions",
				name, strings.Join(refused, ", ")))
		}
	}
	return warnings
}

// providerOf returns the provider of a model. The model is the name of a model in the definition, or provider/model.
func (d *ParsedDefinition) providerOf(model string) string {
	if m, ok := d.Config.Models[model]; ok {
		return m.Provider
	}
	p, _, _ := strings.Cut(model, "/")
	return p
}

func (d *ParsedDefinition) hasProvider(name string) bool {
	_, isAlias := provider.Aliases[name]
	_, isCustom := d.Config.Providers[name]
	return isAlias || isCustom || slices.Contains(builtinProviders, name)
}

// refusedTools returns two lists of the agent's tools that change something: those that no permission allows, and those that a
// permission allows only with some arguments. It leaves out tools that the definition denies, because its author knows that they
// do not work.
func (d *ParsedDefinition) refusedTools(a *latest.AgentConfig, approvedTypes []string) (refused, limited []string) {
	checker, toolChecker := permissions.NewChecker(d.Config.Permissions), permissions.NewChecker(nil)
	if p := d.Config.Permissions; p != nil { // toolChecker allows a tool if any of its arguments are allowed
		var tools []string
		for _, pattern := range p.Allow {
			tool, _, _ := strings.Cut(pattern, ":")
			tools = append(tools, tool)
		}
		toolChecker = permissions.NewChecker(&latest.PermissionsConfig{Allow: tools})
	}
	for _, t := range a.Toolsets {
		if slices.Contains(approvedTypes, t.Type) {
			continue
		}
		for _, tool := range changingTools[t.Type] {
			if len(t.Tools) > 0 && !slices.Contains(t.Tools, tool) {
				continue // the agent does not have the tool
			}
			switch {
			case checker.Check(tool) != permissions.Ask:
			case toolChecker.Check(tool) == permissions.Allow:
				limited = append(limited, tool)
			default:
				refused = append(refused, tool)
			}
		}
	}
	return refused, limited
}
