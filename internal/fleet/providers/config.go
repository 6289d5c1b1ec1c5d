package providers

import (
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Settings are what a configuration says about providers. The zero value is the table as it is.
type Settings struct {
	// Agents change providers of the table, by their name, and add others.
	Agents []Provider `yaml:"agents"`
	// Timeout is how long a request may take that does not say; 0 means 10 min.
	Timeout time.Duration `yaml:"timeout"`
	// MaxConcurrent is how many requests of a principal are under way at a time; 0 means 8.
	MaxConcurrent int `yaml:"max_concurrent"`
	// PerMinute is how many requests a principal can begin in a minute; 0 means 60.
	PerMinute int `yaml:"per_minute"`
	// MaxTools is how many tools a principal can register; 0 means 100.
	MaxTools int `yaml:"max_tools"`
	// ToolEnv names the environment variables of the server that registered tools may have in their headers and
	// environments, as ${NAME}. Whoever registers a tool can have them sent anywhere.
	ToolEnv []string `yaml:"tool_env"`
	// ToolHosts are the hosts on the server's own networks that every principal's tools may call. An admin's may call any.
	ToolHosts []string `yaml:"tool_hosts"`
}

// Config is what a Service can be told besides. The zero value works.
type Config struct {
	Settings
	// APIBackend and CLIBackend are the names of the backends that run models and programs; empty: cagent and local.
	APIBackend, CLIBackend string
	Getenv                 func(string) string // nil: os.Getenv
	Now                    func() time.Time    // nil: time.Now
	Logger                 *slog.Logger        // nil: none
}

// The drivers of the backends that run models and programs, as recipes name them.
const (
	DriverModel   = "cagent"
	DriverClaude  = "claude"
	DriverCommand = "command"
)

// drivers are what starts programs.
var drivers = []string{DriverCommand, DriverClaude, "codex", "gemini", "opencode"}

func (c Config) withDefaults() Config {
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Minute
	}
	if c.MaxConcurrent == 0 {
		c.MaxConcurrent = 8
	}
	if c.PerMinute == 0 {
		c.PerMinute = 60
	}
	if c.MaxTools == 0 {
		c.MaxTools = 100
	}
	if c.APIBackend == "" {
		c.APIBackend = "cagent"
	}
	if c.CLIBackend == "" {
		c.CLIBackend = "local"
	}
	if c.Getenv == nil {
		c.Getenv = os.Getenv
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

var hostPattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?$`)

// Validate says what is wrong with the settings, by key.
func (s Settings) Validate() error {
	switch {
	case s.Timeout < 0 || s.Timeout > MaxTimeout:
		return fmt.Errorf("providers.timeout is %s: it is more than 0 and at most %s", s.Timeout, MaxTimeout)
	case s.MaxConcurrent < 0:
		return fmt.Errorf("providers.max_concurrent is %d: it is more than 0", s.MaxConcurrent)
	case s.PerMinute < 0:
		return fmt.Errorf("providers.per_minute is %d: it is more than 0", s.PerMinute)
	case s.MaxTools < 0:
		return fmt.Errorf("providers.max_tools is %d: it is more than 0", s.MaxTools)
	}
	for _, v := range s.ToolEnv {
		if !variablePattern.MatchString(v) {
			return fmt.Errorf("providers.tool_env has %q, which is no name of an environment variable", show(v))
		}
		if reserved(v) {
			return fmt.Errorf("providers.tool_env has %q, which is Fleet's own and never given to tools", v)
		}
	}
	for _, h := range s.ToolHosts {
		if !hostPattern.MatchString(h) {
			return fmt.Errorf("providers.tool_hosts has %q: it is a host name or an address, without a port", show(h))
		}
	}
	_, err := s.table()
	return err
}

// table is the built-in table with what the settings change and add, by name.
func (s Settings) table() ([]Provider, error) {
	all := builtin()
	seen := map[string]bool{}
	for i, e := range s.Agents {
		at := fmt.Sprintf("providers.agents[%d]", i)
		if e.Name != "" {
			at += fmt.Sprintf(" %q", show(e.Name))
		}
		if seen[e.Name] {
			return nil, fmt.Errorf("%s: there are two of that name: give one another name", at)
		}
		seen[e.Name] = true
		known := slices.IndexFunc(all, func(p Provider) bool { return p.Name == e.Name })
		p := e
		if known >= 0 {
			p = all[known].with(e)
		}
		if err := p.complete(); err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		if known >= 0 {
			all[known] = p
		} else {
			all = append(all, p)
		}
	}
	all = slices.DeleteFunc(all, func(p Provider) bool { return p.Disabled })
	slices.SortFunc(all, func(a, b Provider) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// with is p with what e says otherwise. An entry of another kind shares nothing with p but its name.
func (p Provider) with(e Provider) Provider {
	if e.Kind != "" && e.Kind != p.Kind {
		return e
	}
	set := func(to *string, value string) {
		if value != "" {
			*to = value
		}
	}
	set(&p.Description, e.Description)
	set(&p.Model, e.Model)
	set(&p.BaseURL, e.BaseURL)
	set(&p.Driver, e.Driver)
	set(&p.Vendor, e.Vendor)
	set((*string)(&p.Protocol), string(e.Protocol))
	for _, l := range []struct {
		to    *[]string
		value []string
	}{{&p.Capabilities, e.Capabilities}, {&p.Keys, e.Keys}, {&p.Command, e.Command}} {
		if len(l.value) > 0 {
			*l.to = slices.Clone(l.value)
		}
	}
	if e.Allow != nil {
		p.Allow = slices.Clone(e.Allow)
		if len(e.Capabilities) == 0 {
			p.Capabilities = nil // they follow from it
		}
	}
	p.Disabled = e.Disabled
	return p
}
