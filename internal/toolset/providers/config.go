package providers

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
)

// Settings configure the providers. The zero value uses the built-in table unchanged.
type Settings struct {
	// Agents are changes to the built-in table. An entry with the name of a provider changes this provider, or replaces it if
	// the kind differs. Any other entry adds a provider.
	Agents []Provider `yaml:"agents"`
	// Timeout is the default time limit of a request; 0 means 10 min.
	Timeout time.Duration `yaml:"timeout"`
	// MaxConcurrent is how many requests a principal may have under way; 0 means 8.
	MaxConcurrent int `yaml:"max_concurrent"`
	// PerMinute is how many requests a principal may begin in a minute; 0 means 60.
	PerMinute int `yaml:"per_minute"`
	// MaxTools is how many tools a principal may register; 0 means 100.
	MaxTools int `yaml:"max_tools"`
	// ToolEnv names the environment variables of the server that registered tools may use in headers and environments,
	// as ${NAME}. Anyone who can register a tool can have the values of these variables sent anywhere.
	ToolEnv []string `yaml:"tool_env"`
	// ToolHosts are the hosts on the server's own networks that every principal's tools may call. An admin's tools may
	// call any host.
	ToolHosts []string `yaml:"tool_hosts"`
}

// Config configures a Service. The zero value works.
type Config struct {
	Settings
	Drivers      []fleet.Driver      // the drivers of the places that run models and programs
	ProbeTimeout time.Duration       // time limit of a probe; 0 means 2 s
	StopGrace    time.Duration       // how much longer than its timeout a request waits for its run; 0 means 5 s
	Getenv       func(string) string // nil means os.Getenv
	Now          func() time.Time    // nil means time.Now
	Logger       *slog.Logger        // nil means no log
}

func (c Config) withDefaults() Config {
	c.Timeout = cmp.Or(c.Timeout, 10*time.Minute)
	c.ProbeTimeout = cmp.Or(c.ProbeTimeout, 2*time.Second)
	c.StopGrace = cmp.Or(c.StopGrace, 5*time.Second)
	c.MaxConcurrent = cmp.Or(c.MaxConcurrent, 8)
	c.PerMinute = cmp.Or(c.PerMinute, 60)
	c.MaxTools = cmp.Or(c.MaxTools, 100)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Getenv == nil {
		c.Getenv = os.Getenv
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// hostPattern matches the entries of Settings.ToolHosts that are not IP addresses.
var hostPattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`)

// Validate returns an error that names the invalid key, or nil. drivers are the drivers of the places that run models
// and programs.
func (s Settings) Validate(drivers []fleet.Driver) error {
	switch {
	case s.Timeout < 0 || s.Timeout > MaxTimeout:
		return fmt.Errorf("providers.timeout is %s: it must be more than 0 and at most %s, or 0 for 10 minutes", s.Timeout, MaxTimeout)
	case s.MaxConcurrent < 0:
		return fmt.Errorf("providers.max_concurrent is %d: use a positive number, or 0 for the default", s.MaxConcurrent)
	case s.PerMinute < 0:
		return fmt.Errorf("providers.per_minute is %d: use a positive number, or 0 for the default", s.PerMinute)
	case s.MaxTools < 0:
		return fmt.Errorf("providers.max_tools is %d: use a positive number, or 0 for the default", s.MaxTools)
	}
	for _, v := range s.ToolEnv {
		if !variablePattern.MatchString(v) {
			return fmt.Errorf("providers.tool_env has %q, which is not a valid name of an environment variable", shorten(v))
		}
		if fleet.IsReservedVariable(v) {
			return fmt.Errorf("providers.tool_env has %q, a variable of Fleet itself that tools never get: remove it", v)
		}
	}
	for _, h := range s.ToolHosts {
		if _, err := netip.ParseAddr(h); err != nil && !hostPattern.MatchString(h) {
			return fmt.Errorf("providers.tool_hosts has %q: give a host name or an address, without a port", shorten(h))
		}
	}
	_, err := s.table(drivers)
	return err
}

// table returns the built-in table with the changes and additions of the settings, sorted by name. It omits disabled
// providers.
func (s Settings) table(drivers []fleet.Driver) ([]Provider, error) {
	all := builtinProviders(drivers)
	names := map[string]bool{}
	for i, e := range s.Agents {
		entry := fmt.Sprintf("providers.agents[%d]", i)
		if e.Name != "" {
			entry += fmt.Sprintf(" %q", shorten(e.Name))
		}
		if names[e.Name] {
			return nil, fmt.Errorf("%s: there are two entries with this name: rename one of them", entry)
		}
		names[e.Name] = true
		index := slices.IndexFunc(all, func(p Provider) bool { return p.Name == e.Name })
		p := e
		if index >= 0 {
			p = all[index].override(e)
		}
		if err := p.complete(drivers); err != nil {
			return nil, fmt.Errorf("%s: %w", entry, err)
		}
		if index >= 0 {
			all[index] = p
		} else {
			all = append(all, p)
		}
	}
	all = slices.DeleteFunc(all, func(p Provider) bool { return p.Disabled })
	slices.SortFunc(all, func(a, b Provider) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// override returns p with the changes of e. If e has another kind, override returns e itself.
func (p Provider) override(e Provider) Provider {
	if e.Kind != "" && e.Kind != p.Kind {
		return e
	}
	setIfNotEmpty := func(to *string, value string) {
		if value != "" {
			*to = value
		}
	}
	setIfNotEmpty(&p.Description, e.Description)
	setIfNotEmpty(&p.Model, e.Model)
	setIfNotEmpty(&p.BaseURL, e.BaseURL)
	setIfNotEmpty(&p.Driver, e.Driver)
	setIfNotEmpty(&p.Vendor, e.Vendor)
	setIfNotEmpty((*string)(&p.Protocol), string(e.Protocol))
	for _, l := range []struct {
		to    *[]string
		value []string
	}{{&p.Capabilities, e.Capabilities}, {&p.KeyVariables, e.KeyVariables}, {&p.Command, e.Command}} {
		if len(l.value) > 0 {
			*l.to = slices.Clone(l.value)
		}
	}
	if e.Allow != nil {
		p.Allow = slices.Clone(e.Allow)
		if len(e.Capabilities) == 0 {
			p.Capabilities = nil // complete derives them from Allow
		}
	}
	p.Disabled = e.Disabled
	return p
}
