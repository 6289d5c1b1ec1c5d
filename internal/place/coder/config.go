package coder

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Config configures a Place. URL and Token are needed.
type Config struct {
	URL string `yaml:"url"` // of the Coder deployment, as a person opens it

	// Owner says to which Coder user the workspaces of agents belong: self, the user of Fleet's own token (the default),
	// or principal, the user with the name of the agent's owner. The latter needs a token of Coder's owner role.
	Owner string `yaml:"owner"`

	// TokenFile is a file with the session token, for FindToken; empty means the environment, or Coder's own login.
	TokenFile string `yaml:"token_file"`

	Settings `yaml:",inline"`

	// Projects names templates, and says what is special about them, by the project's name. Templates that can host an
	// agent are projects without being named here.
	Projects map[string]Project `yaml:"projects"`

	// Metadata says which metadata item of an agent's template is shown under which key of Fleet; what is missing here
	// is as in DefaultMetadata, and an empty item means none.
	Metadata map[string]string `yaml:"metadata"`

	PollInterval time.Duration `yaml:"poll_interval"` // how often all workspaces are listed; 0: 3 s

	// Token returns the session token. It is asked before every request, so that it can change. Its errors are shown.
	Token func(context.Context) (string, error) `yaml:"-"`
	// RunnerKey signs requests to fleet-runner in workspaces; nil: workspaces with a fleet-runner cannot be used.
	RunnerKey ed25519.PrivateKey `yaml:"-"`
	// Transport carries the requests; nil means one of the backend's own.
	Transport http.RoundTripper `yaml:"-"`
	Logger    *slog.Logger      `yaml:"-"` // nil: none
	Now       func() time.Time  `yaml:"-"` // nil: time.Now
}

// Settings say how agents are hosted by a template. The zero value means the defaults.
type Settings struct {
	RoleParameter string `yaml:"role_parameter"` // none: the first there is of role, agent_role and fleet_role
	SpecParameter string `yaml:"spec_parameter"` // none: the first there is of spec, fleet_spec, AI Prompt and ai_prompt
	App           string `yaml:"app"`            // slug of the app to speak to; none: the first there is of fleet-runner and, for AgentAPI, agentapi, ccw and claude-code
	// SpecIsTask says that the spec's parameter is the prompt itself, on which the agent begins to work at once; none:
	// where it is AI Prompt or ai_prompt.
	SpecIsTask *bool   `yaml:"spec_is_task"`
	Prefix     *string `yaml:"prefix"` // how the names of agents' workspaces begin; none: agent-
}

// Project is a template that is named in the configuration.
type Project struct {
	Template string `yaml:"template"` // name of the template; none: the name of the project
	Settings `yaml:",inline"`
}

// UnmarshalYAML also takes the name of the template alone: `Setup: setup-devcontainer`.
func (p *Project) UnmarshalYAML(unmarshal func(any) error) error {
	var name string
	if err := unmarshal(&name); err == nil {
		*p = Project{Template: name}
		return nil
	}
	type plain Project
	return unmarshal((*plain)(p))
}

// The values of Config.Owner.
const (
	OwnerSelf      = "self"
	OwnerPrincipal = "principal"
)

// DefaultPrefix is how the names of agents' workspaces begin.
const DefaultPrefix = "agent-"

const defaultPollInterval = 3 * time.Second

// Parameters and apps that are looked for when the configuration names none. A template with one of hostParameters, or
// of the others, can host an agent.
var (
	roleParameters = []string{"role", "agent_role", "fleet_role"}
	specParameters = []string{"spec", "fleet_spec", "AI Prompt", "ai_prompt"}
	hostParameters = []string{"system_prompt", keyParameter}
	appSlugs       = []string{runnerSlug, "agentapi", "ccw", "claude-code"}
)

// ownerParameter takes the name of the agent's owner, where all workspaces belong to one Coder user: who an agent belongs to
// can then be told from Coder alone.
const ownerParameter = "fleet_owner"

// DefaultMetadata returns which metadata item is shown under which key.
func DefaultMetadata() map[string]string {
	return map[string]string{
		keySpec:                               "agent_spec",
		"fleet_mcp_pull_request_url":          "pull_request_url",
		"fleet_mcp_pull_request_status":       "pull_request_status",
		"fleet_mcp_pull_request_check_status": "check_status",
	}
}

// keySpec is the metadata key of an agent's specification.
const keySpec = "fleet_mcp_agent_spec"

var prefixPattern = regexp.MustCompile(`^([A-Za-z0-9]+-)*[A-Za-z0-9]*$`)

// check completes the configuration and says what is wrong with it.
func (c *Config) check() (*url.URL, error) {
	if c.URL == "" {
		return nil, errors.New("the coder backend needs the URL of a Coder deployment: set url below coder: in the configuration, or CODER_URL")
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("coder.url is %q: it is like https://coder.example.com", redacted(c.URL))
	}
	if u.User != nil || u.RawQuery != "" {
		return nil, fmt.Errorf("coder.url is %q: leave out everything but scheme, host and path", u.Redacted())
	}
	u.Path = strings.TrimRight(u.Path, "/")
	if c.Token == nil {
		return nil, errors.New("the coder backend needs a session token: set CODER_SESSION_TOKEN, coder.token_file, or log in with `coder login`")
	}
	switch c.Owner {
	case "":
		c.Owner = OwnerSelf
	case OwnerSelf, OwnerPrincipal:
	default:
		return nil, fmt.Errorf("coder.owner is %q: it is self or principal", c.Owner)
	}
	if err := c.Settings.check(); err != nil {
		return nil, fmt.Errorf("coder: %w", err)
	}
	if err := c.checkProjects(); err != nil {
		return nil, err
	}
	metadata := DefaultMetadata()
	maps.Copy(metadata, c.Metadata)
	c.Metadata = metadata
	if c.PollInterval < 0 {
		return nil, fmt.Errorf("coder.poll_interval is %s: it is more than 0", c.PollInterval)
	}
	if c.PollInterval == 0 {
		c.PollInterval = defaultPollInterval
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return u, nil
}

func (c *Config) checkProjects() error {
	ready := map[string]Project{}
	templates := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.Projects)) {
		p := c.Projects[name]
		if strings.TrimSpace(name) == "" {
			return errors.New("coder.projects: a project needs a name")
		}
		if p.Template == "" {
			p.Template = name
		}
		key := strings.ToLower(p.Template)
		if other, taken := templates[key]; taken {
			return fmt.Errorf("coder.projects: %s and %s are the same template, %s: leave one out", other, name, p.Template)
		}
		templates[key] = name
		if err := p.check(); err != nil {
			return fmt.Errorf("coder.projects.%s: %w", name, err)
		}
		p.Settings = p.or(c.Settings)
		ready[name] = p
	}
	c.Projects = ready
	return nil
}

func (s Settings) check() error {
	if s.Prefix != nil && !prefixPattern.MatchString(*s.Prefix) {
		return fmt.Errorf("prefix is %q: it is letters and digits with single hyphens between or after them, like agent-", *s.Prefix)
	}
	return nil
}

// or fills what is not set from d.
func (s Settings) or(d Settings) Settings {
	if s.RoleParameter == "" {
		s.RoleParameter = d.RoleParameter
	}
	if s.SpecParameter == "" {
		s.SpecParameter = d.SpecParameter
	}
	if s.App == "" {
		s.App = d.App
	}
	if s.SpecIsTask == nil {
		s.SpecIsTask = d.SpecIsTask
	}
	if s.Prefix == nil {
		s.Prefix = d.Prefix
	}
	return s
}

func (s Settings) prefix() string {
	if s.Prefix == nil {
		return DefaultPrefix
	}
	return *s.Prefix
}

func (s Settings) slugs() []string { return orList(s.App, appSlugs) }

func orList(one string, list []string) []string {
	if one != "" {
		return []string{one}
	}
	return list
}

// redacted is an address without what may be secret in it.
func redacted(address string) string {
	if u, err := url.Parse(address); err == nil {
		return u.Redacted()
	}
	return "not an address"
}
