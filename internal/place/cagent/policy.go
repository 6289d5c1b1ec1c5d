package cagent

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/docker/cagent/pkg/config/latest"

	"fleet/internal/fleet"
)

// Policy says what definitions may want that come from a registry, where anybody can put one. Files in the agents
// directory are the operator's own and may want anything. The zero value is the safe one.
type Policy struct {
	// Toolsets are the types of toolsets they may have; nil means DefaultToolsets.
	Toolsets []string
	// ModelHosts are the hosts, as host or host:port, that they may name as base_url of a model. They get the keys.
	ModelHosts []string
}

// DefaultToolsets reach nothing but the agent's own directory and conversation.
var DefaultToolsets = []string{"think", "todo", "memory"}

// keys are the names of variables that hold a key for a model and nothing else, by provider.
var keys = map[string]string{
	"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY", "google": "GOOGLE_API_KEY", "mistral": "MISTRAL_API_KEY",
	"xai": "XAI_API_KEY", "nebius": "NEBIUS_API_KEY", "requesty": "REQUESTY_API_KEY", "ollama": "", "auto": "",
}

// runsPrograms returns what in the definition runs programs on this machine, as the server's user. It is empty when the
// definition runs none.
func runsPrograms(d *definition) string {
	for _, name := range d.agents {
		a := d.config.Agents[name]
		for _, t := range a.Toolsets {
			switch {
			case t.Type == "shell", t.Type == "script", t.Type == "lsp":
				return fmt.Sprintf("its agent %q has the toolset %s", name, t.Type)
			case t.Type == "mcp" && (t.Command != "" || t.Ref != ""):
				return fmt.Sprintf("its agent %q has an MCP server that is a program, %q", name, clip(t.Command+t.Ref, 60))
			case len(t.PostEdit) > 0:
				return fmt.Sprintf("its agent %q runs commands after edits", name)
			}
		}
		if !a.Hooks.IsEmpty() {
			return fmt.Sprintf("its agent %q has hooks, which run commands", name)
		}
	}
	return ""
}

// checkPrograms returns an error when the definition runs programs on this machine.
func checkPrograms(d *definition) error {
	if what := runsPrograms(d); what != "" {
		return fmt.Errorf("%s: on a server with tokens programs need an explicit permission, cagent.programs: true in fleet.yaml", what)
	}
	return nil
}

// check says what the definition wants and may not have; nil when there is nothing.
func (p Policy) check(d *definition) error {
	c := d.config
	for name, a := range c.Agents {
		if err := p.checkAgent(name, &a); err != nil {
			return err
		}
	}
	for name, m := range c.Models {
		custom, isCustom := c.Providers[m.Provider]
		if isCustom {
			if err := p.checkKey(name, custom.TokenKey); err != nil {
				return err
			}
			if err := p.checkHost(name, custom.BaseURL); err != nil {
				return err
			}
		} else if _, ok := keys[m.Provider]; !ok {
			return fmt.Errorf("its model %q is of the provider %q, which is not for definitions from a registry", name, m.Provider)
		}
		if err := p.checkKey(name, m.TokenKey); err != nil {
			return err
		}
		if err := p.checkHost(name, m.BaseURL); err != nil {
			return err
		}
	}
	return nil
}

func (p Policy) checkAgent(name string, a *latest.AgentConfig) error {
	allowed := p.Toolsets
	if allowed == nil {
		allowed = DefaultToolsets
	}
	for _, t := range a.Toolsets {
		if !slices.Contains(allowed, t.Type) {
			return fmt.Errorf("its agent %q has the toolset %q; definitions from a registry may have %s", name, t.Type, strings.Join(allowed, ", "))
		}
		if len(t.PostEdit) > 0 {
			return fmt.Errorf("its agent %q runs commands after edits", name)
		}
	}
	if wants := wantsOfMachine(a); wants != "" {
		return fmt.Errorf("its agent %q wants %s, which is not for definitions from a registry", name, wants)
	}
	return nil
}

// wantsOfMachine returns what the agent wants of this machine beside its toolsets; empty: nothing.
func wantsOfMachine(a *latest.AgentConfig) string {
	switch {
	case !a.Hooks.IsEmpty():
		return "hooks, which run commands"
	case len(a.AddPromptFiles) > 0:
		return "prompt files of this machine"
	case a.Skills != nil && *a.Skills:
		return "the skills of this machine's user"
	case a.CodeModeTools:
		return "to run code"
	case a.AddEnvironmentInfo:
		return "to know about this machine"
	}
	return ""
}

// apiToolsets are the types of toolsets that touch nothing of this machine but files that Fleet keeps for them. A server
// of mcp may be a program.
var apiToolsets = []string{"think", "todo", "memory", "fetch", "api", "a2a", "mcp"}

// ofMachine reports whether runs of the agent touch this machine, as files, programs or code do. Such a run has a process of
// its own, which is confined and survives the server. A definition that only talks to APIs runs in the server's process.
func ofMachine(d *definition, r *fleet.Recipe) bool {
	if startsPrograms(d, r) != "" {
		return true
	}
	for _, name := range d.agents {
		a := d.config.Agents[name]
		if wantsOfMachine(&a) != "" || slices.ContainsFunc(a.Toolsets, func(t latest.Toolset) bool { return !slices.Contains(apiToolsets, t.Type) }) {
			return true
		}
	}
	return false
}

// startsPrograms returns what in the definition or the recipe runs programs on this machine. It is empty when nothing does.
func startsPrograms(d *definition, r *fleet.Recipe) string {
	if what := runsPrograms(d); what != "" {
		return what
	}
	for _, m := range r.MCPServers {
		if m.Command != "" {
			return fmt.Sprintf("its MCP server %q is a program", m.Name)
		}
	}
	for _, t := range r.Tools {
		if len(t.Command) > 0 || t.MCP != nil && t.MCP.Server.Command != "" {
			return fmt.Sprintf("its tool %q is a program", t.Name)
		}
	}
	return ""
}

func (p Policy) checkKey(model, name string) error {
	if name == "" {
		return nil
	}
	for _, key := range keys {
		if key == name {
			return nil
		}
	}
	return fmt.Errorf("its model %q wants the variable %q as its key, which is not one of a known provider's", model, clip(name, 60))
}

func (p Policy) checkHost(model, base string) error {
	if base == "" {
		return nil
	}
	u, err := url.Parse(base)
	if err == nil && (slices.Contains(p.ModelHosts, u.Host) || slices.Contains(p.ModelHosts, u.Hostname())) {
		return nil
	}
	return fmt.Errorf("its model %q is at %q, a host that this server does not send its keys to for definitions from a registry", model, clip(base, 100))
}
