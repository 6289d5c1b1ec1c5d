package providers

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"fleet/internal/fleet"
)

// Kind is the kind of a provider.
type Kind string

// The kinds of providers.
const (
	KindAPI   Kind = "api"   // a model behind an API, with a key
	KindCLI   Kind = "cli"   // a program on the server's machine
	KindLocal Kind = "local" // a model server for which a key is optional, usually on the server's machine
)

// Protocol is the API through which Fleet calls a model.
type Protocol string

// The protocols of models.
const (
	ProtocolAnthropic Protocol = "anthropic"        // Messages
	ProtocolOpenAI    Protocol = "openai"           // Chat Completions, which most other vendors offer too
	ProtocolResponses Protocol = "openai_responses" // Responses
	ProtocolGoogle    Protocol = "google"           // Gemini API
	ProtocolOllama    Protocol = "ollama"           // Ollama's own API for probes, Chat Completions for requests
)

// protocols lists the protocols that each kind of provider can speak, the default first.
var protocols = map[Kind][]Protocol{
	KindAPI:   {ProtocolOpenAI, ProtocolResponses, ProtocolAnthropic, ProtocolGoogle},
	KindLocal: {ProtocolOpenAI, ProtocolOllama},
}

// fixedKeyVariables names the variable with the key, for the protocols whose clients read no other variable.
var fixedKeyVariables = map[Protocol]string{ProtocolAnthropic: "ANTHROPIC_API_KEY", ProtocolGoogle: "GOOGLE_API_KEY"}

// Provider is an agent that can be given requests. Some of its fields apply to one kind only.
type Provider struct {
	Name         string   `yaml:"name"`
	Description  string   `yaml:"description"`
	Kind         Kind     `yaml:"kind"`
	Capabilities []string `yaml:"capabilities"`
	// Model is the default model of a request; for a program, empty means the program's own default.
	Model string `yaml:"model"`
	// KeyVariables names the server's environment variables that can hold the key. For a model, Fleet uses the first variable that
	// is set. A program gets all of them, in addition to the variables that its driver passes anyway.
	KeyVariables []string `yaml:"keys"`

	// These fields are for models.
	Protocol Protocol `yaml:"protocol"`
	BaseURL  string   `yaml:"base_url"`
	// Vendor is the vendor of the models. It decides which keys of a request's config they accept. If it is empty and the
	// protocol belongs to one vendor, it is that vendor. Otherwise an empty Vendor allows all keys that some vendor may accept.
	Vendor string `yaml:"vendor"`

	// These fields are for programs. Driver is the driver of the local place that starts the program. Command is the
	// program and its arguments in the notation of that place. If the driver has a program of its own, Command is only the
	// arguments to add.
	Driver         string       `yaml:"driver"`
	Command        []string     `yaml:"command"`
	resolvedDriver fleet.Driver // the driver that Driver names; set by complete
	// Allow lists the tools that a program may use, in Claude's notation, if its driver can limit tools. Nobody
	// can grant it other tools during a request. nil means editTools if the driver can limit tools.
	Allow []string `yaml:"allow"`

	// Disabled removes the provider from the table.
	Disabled bool `yaml:"disabled"`
}

// TakesTools reports whether callers can register tools for the agent.
func (p *Provider) TakesTools() bool {
	return p.Kind != KindCLI && slices.Contains(p.Capabilities, CapabilityToolUse)
}

// Program returns the name or path of the program that does the work; "" for a model.
func (p *Provider) Program() string {
	switch {
	case p.Kind != KindCLI:
		return ""
	case len(p.Command) > 0 && !p.resolvedDriver.AddsArguments:
		return p.Command[0]
	}
	return p.Driver
}

// These are the capabilities of the providers in the built-in table. Entries of a configuration may have others.
const (
	CapabilityTextCompletion   = "text_completion"
	CapabilityCodeGeneration   = "code_generation"
	CapabilityCodeAnalysis     = "code_analysis"
	CapabilityCodeEditing      = "code_editing"      // edits files by itself
	CapabilityCodeExecution    = "code_execution"    // runs programs by itself
	CapabilityToolUse          = "tool_use"          // calls tools
	CapabilityExtendedThinking = "extended_thinking" // reasons before it answers
)

// defaultCapabilities are the default capabilities of each kind of provider.
var defaultCapabilities = map[Kind][]string{
	KindAPI:   {CapabilityTextCompletion, CapabilityCodeGeneration, CapabilityCodeAnalysis, CapabilityToolUse},
	KindCLI:   {CapabilityTextCompletion, CapabilityCodeGeneration, CapabilityCodeAnalysis, CapabilityCodeEditing},
	KindLocal: {CapabilityTextCompletion, CapabilityCodeGeneration, CapabilityCodeAnalysis, CapabilityToolUse},
}

// editTools are the tools with which Claude Code reads and changes files in its own directory. They do not run programs.
var editTools = []string{"Read", "Glob", "Grep", "Edit", "Write", "NotebookEdit", "TodoWrite"}

// capabilitiesOfTools returns the default capabilities of a program with these Claude Code tools.
func capabilitiesOfTools(tools []string) []string {
	hasAny := func(names ...string) bool {
		return slices.ContainsFunc(tools, func(rule string) bool {
			name, _, _ := strings.Cut(rule, "(")
			return slices.Contains(names, name)
		})
	}
	all := defaultCapabilitiesOf(KindCLI)
	if !hasAny("Edit", "Write", "NotebookEdit") {
		all = slices.DeleteFunc(all, func(c string) bool { return c == CapabilityCodeEditing })
	}
	if hasAny("Bash") {
		all = append(all, CapabilityCodeExecution)
	}
	return all
}

func defaultCapabilitiesOf(k Kind) []string { return slices.Clone(defaultCapabilities[k]) }

var (
	namePattern       = regexp.MustCompile(`^[a-z0-9]+([._-][a-z0-9]+)*$`)
	capabilityPattern = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	variablePattern   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

const maxName = 40 // in bytes

// defaultDriver is the driver of a program whose entry names none.
const defaultDriver = "command"

// complete sets defaults and derived fields, and checks the provider. An error names the invalid key.
func (p *Provider) complete(drivers []fleet.Driver) error {
	if len(p.Name) > maxName || !namePattern.MatchString(p.Name) {
		return fmt.Errorf("name is %q: use 1 to %d lower-case letters, digits, and single - . _ between them", p.Name, maxName)
	}
	if p.Kind != KindAPI && p.Kind != KindCLI && p.Kind != KindLocal {
		return fmt.Errorf("kind is %q: it must be api, cli or local", p.Kind)
	}
	if p.Kind == KindCLI {
		if err := p.resolveDriver(drivers); err != nil {
			return err
		}
	}
	if p.Allow == nil && p.resolvedDriver.LimitsTools {
		p.Allow = slices.Clone(editTools)
	}
	switch {
	case len(p.Capabilities) > 0:
	case p.resolvedDriver.LimitsTools:
		p.Capabilities = capabilitiesOfTools(p.Allow)
	default:
		p.Capabilities = defaultCapabilitiesOf(p.Kind)
	}
	for i, c := range p.Capabilities {
		if !capabilityPattern.MatchString(c) {
			return fmt.Errorf("capabilities has %q: use lower-case words with _ between them, like code_generation", c)
		}
		if slices.Contains(p.Capabilities[:i], c) {
			return fmt.Errorf("capabilities has %q twice", c)
		}
	}
	for _, k := range p.KeyVariables {
		switch {
		case !variablePattern.MatchString(k):
			return fmt.Errorf("keys has %q, which is not a valid name of an environment variable: name a variable here, and put the key itself into the server's environment", shorten(k))
		case fleet.IsReservedVariable(k):
			return fmt.Errorf("keys has %q, a variable of Fleet itself that agents never get: remove it", k)
		}
	}
	if strings.ContainsAny(p.Model, "\x00\r\n") {
		return fmt.Errorf("model is %q: it must be a single line", p.Model)
	}
	if p.Description == "" {
		p.Description = p.Name
	}
	if p.Kind == KindCLI {
		return p.completeCLI(drivers)
	}
	return p.completeModel()
}

// resolveDriver finds the driver of a program and sets resolvedDriver. The default is the driver that can start any command. It
// returns an error if drivers has no such driver.
func (p *Provider) resolveDriver(drivers []fleet.Driver) error {
	// A driver for scripts would execute the caller's prompt. A driver with documents is for models.
	programs := slices.DeleteFunc(slices.Clone(drivers), func(d fleet.Driver) bool { return d.RunsScripts || d.NeedsDocument })
	if p.Driver == "" {
		p.Driver = defaultDriver
	}
	d, ok := fleet.Traits{Drivers: programs}.Driver(p.Driver)
	if !ok {
		return fmt.Errorf("driver is %q: it must be one of %s", p.Driver, join(fleet.DriverNames(programs, nil)))
	}
	p.resolvedDriver = d
	return nil
}

func (p *Provider) completeCLI(drivers []fleet.Driver) error {
	if p.Protocol != "" || p.BaseURL != "" || p.Vendor != "" {
		return fmt.Errorf("protocol, base_url and vendor are for kind api and local, not for a program")
	}
	if p.resolvedDriver.NeedsCommand && len(p.Command) == 0 || len(p.Command) > 0 && strings.TrimSpace(p.Command[0]) == "" {
		return fmt.Errorf("command is empty: give the program and its arguments, as a list")
	}
	if p.Allow != nil && !p.resolvedDriver.LimitsTools {
		return fmt.Errorf("the driver %q cannot limit the tools of its program: leave allow out, or use %s", p.Driver,
			join(fleet.DriverNames(drivers, func(d fleet.Driver) bool { return d.LimitsTools })))
	}
	for _, a := range p.Allow {
		if strings.TrimSpace(a) == "" || strings.ContainsFunc(a, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("allow has %q: name a tool of Claude Code on one line, like Edit or Bash(npm test:*)", shorten(a))
		}
	}
	for _, a := range p.Command {
		if strings.ContainsRune(a, 0) {
			return fmt.Errorf("command contains a zero byte: remove the zero byte")
		}
	}
	return nil
}

func (p *Provider) completeModel() error {
	if p.Driver != "" || len(p.Command) > 0 || p.Allow != nil {
		return fmt.Errorf("driver, command and allow are for kind cli, not for a model")
	}
	if knownVendors := vendors(); p.Vendor != "" && !slices.Contains(knownVendors, p.Vendor) {
		return fmt.Errorf("vendor is %q: it must be one of %s, or left out", shorten(p.Vendor), join(knownVendors))
	}
	knownProtocols := protocols[p.Kind]
	if p.Protocol == "" {
		p.Protocol = knownProtocols[0]
	}
	if !slices.Contains(knownProtocols, p.Protocol) {
		return fmt.Errorf("protocol is %q: for kind %s it must be one of %s", p.Protocol, p.Kind, join(knownProtocols))
	}
	if p.Model == "" {
		return fmt.Errorf("model is empty: name the model for requests that name none")
	}
	if err := checkBaseURL(p.BaseURL); err != nil {
		return err
	}
	p.BaseURL = strings.TrimRight(p.BaseURL, "/")
	if p.Kind == KindAPI && len(p.KeyVariables) == 0 {
		return fmt.Errorf("keys is empty: name the environment variable that holds the key, or use kind local for a server that needs no key")
	}
	if vendor := map[Protocol]string{ProtocolAnthropic: "anthropic", ProtocolGoogle: "google", ProtocolOllama: "ollama"}[p.Protocol]; p.Vendor == "" {
		p.Vendor = vendor // the protocol's vendor
	}
	if fixedKeyVariable := fixedKeyVariables[p.Protocol]; fixedKeyVariable != "" && !slices.Equal(p.KeyVariables, []string{fixedKeyVariable}) {
		return fmt.Errorf("keys is %s: with protocol %s it must be %s", join(p.KeyVariables), p.Protocol, fixedKeyVariable)
	}
	return nil
}

// checkBaseURL returns an error if the base URL is invalid or contains parts that may hold a secret.
func checkBaseURL(base string) error {
	u, err := url.Parse(base)
	switch {
	case base == "":
		return fmt.Errorf("base_url is empty: give the address of the API, like https://api.example.com/v1")
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("base_url is not an http or https URL: write it like https://api.example.com/v1")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("base_url has a user, a query or a fragment: leave them out, and put the key into the server's environment")
	}
	return nil
}

func join[T ~string](words []T) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = string(w)
	}
	return strings.Join(out, ", ")
}

// shorten returns at most 40 characters of a text, for an error.
func shorten(s string) string { return fleet.Shorten(strings.ToValidUTF8(s, "\uFFFD"), 40) }
