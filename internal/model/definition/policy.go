package definition

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/docker/cagent/pkg/config/latest"

	"fleet/internal/fleet"
)

// Policy limits definitions from registries, where anybody can publish. It does not apply to files in the agents
// directory, which belong to the operator. The zero value allows only DefaultToolsets, and no hosts.
type Policy struct {
	// Toolsets are the allowed types of toolsets; nil: DefaultToolsets.
	Toolsets []string
	// ModelHosts are the hosts, as host or host:port, that base_url of a model or provider may name. These hosts receive the keys.
	ModelHosts []string
}

// DefaultToolsets access only the agent's own directory and conversation.
var DefaultToolsets = []string{"think", "todo", "memory"}

// keyVariables are the names of the variables with the API keys, by provider. The name is empty if the provider needs no key.
var keyVariables = map[string]string{
	"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY", "google": "GOOGLE_API_KEY", "mistral": "MISTRAL_API_KEY",
	"xai": "XAI_API_KEY", "nebius": "NEBIUS_API_KEY", "requesty": "REQUESTY_API_KEY", "ollama": "", "auto": "",
}

// check returns an error that names a part of the definition that the policy does not allow; nil if it allows all parts.
func (p Policy) check(d *ParsedDefinition) error {
	c := d.Config
	for name, a := range c.Agents {
		if err := p.checkAgent(name, &a); err != nil {
			return err
		}
	}
	for name, custom := range c.Providers { // models that are chosen later, like auto, may use any of them
		what := fmt.Sprintf("its provider %q", name)
		if _, ok := keyVariables[name]; ok {
			return fmt.Errorf("%s replaces a known provider, which definitions from a registry may not do", what)
		}
		if err := p.checkKey(what, custom.TokenKey); err != nil {
			return err
		}
		if err := p.checkHost(what, custom.BaseURL); err != nil {
			return err
		}
	}
	for name, m := range c.Models {
		what := fmt.Sprintf("its model %q", name)
		_, isCustom := c.Providers[m.Provider]
		if _, ok := keyVariables[m.Provider]; !ok && !isCustom {
			return fmt.Errorf("%s uses the provider %q, which definitions from a registry may not use", what, m.Provider)
		}
		if err := p.checkKey(what, m.TokenKey); err != nil {
			return err
		}
		if err := p.checkHost(what, m.BaseURL); err != nil {
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
	if access := machineAccess(a); access != "" {
		return fmt.Errorf("its agent %q uses %s, which definitions from a registry may not use", name, access)
	}
	return nil
}

// checkKey returns an error unless the variable with the name is the key of a known provider, or the name is empty. what is the
// part of the definition that names the variable.
func (p Policy) checkKey(what, name string) error {
	if name == "" {
		return nil
	}
	for _, key := range keyVariables {
		if key == name {
			return nil
		}
	}
	return fmt.Errorf("%s uses the variable %q as its key, which is not the key of a known provider", what, fleet.Shorten(name, 60))
}

// checkHost returns an error unless the policy allows the host of the URL base, or base is empty. what is the part of the
// definition that names the URL.
func (p Policy) checkHost(what, base string) error {
	if base == "" {
		return nil
	}
	u, err := url.Parse(base)
	if err == nil && (slices.Contains(p.ModelHosts, u.Host) || slices.Contains(p.ModelHosts, u.Hostname())) {
		return nil
	}
	return fmt.Errorf("%s has the base_url %q, to which this server does not send keys for definitions from a registry", what, fleet.Shorten(base, 100))
}
