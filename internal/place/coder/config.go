package coder

import (
	"cmp"
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

	"github.com/google/uuid"

	"fleet/internal/fleet"
)

// Config configures a Place. URL and Token are required.
type Config struct {
	URL string `yaml:"url"` // of the Coder deployment

	// Owner sets which Coder user owns the workspaces of agents. With self, it is the user of Fleet's token. With
	// principal, it is the Coder user of the agent's owner: the user who has signed in, else the user with the owner's
	// name. principal requires a token with Coder's owner role. The default is principal if Users is set, else self.
	Owner string `yaml:"owner"`

	// User is the id of the Coder user whose token Fleet must have. If it is empty, it is the user of the first token that
	// this Fleet ever used, as Remember says. With another user's token, the place refuses every request.
	User string `yaml:"user"`

	// TokenFile is the path of a file with the session token, for FindToken. If it is empty, the token comes from the
	// environment or from Coder's own login.
	TokenFile string `yaml:"token_file"`

	// FleetURL is the address at which workspaces reach Fleet. Without it, their agents cannot report, run subagents or delegate tasks.
	FleetURL string `yaml:"fleet_url"`

	Settings `yaml:",inline"`

	// Projects configures templates, by project name. Templates that can host agents are projects even if they are not
	// listed here.
	Projects map[string]Project `yaml:"projects"`

	// Organizations configures the templates of organizations, by the name of the organization.
	Organizations map[string]Organization `yaml:"organizations"`

	// Metadata maps keys of Fleet to metadata items of a template. A missing key has its value in DefaultMetadata. An
	// empty value turns the key off.
	Metadata map[string]string `yaml:"metadata"`

	PollInterval time.Duration `yaml:"poll_interval"` // how often workspaces are listed; 0: 3 s

	// Token returns the session token. Place calls it before every request, so that the token can change. Users see its
	// errors.
	Token func(context.Context) (string, error) `yaml:"-"`
	// Remember stores the id of the Coder user if none is stored yet, and returns the stored id. It makes the place refuse
	// another user's token after a restart too. If it is nil, the first token of this process counts.
	Remember func(ctx context.Context, user string) (stored string, err error) `yaml:"-"`
	// RenewHint says for people what to do if Coder does not accept the token, see RenewTokenHint; empty: to use a valid one.
	RenewHint string `yaml:"-"`
	// Users maps principals to the Coder users with which they have signed in; nil if principals cannot sign in with
	// Coder.
	Users Users `yaml:"-"`
	// RunnerKey signs requests to fleet-runner. If it is nil, workspaces with a fleet-runner cannot be used.
	RunnerKey ed25519.PrivateKey `yaml:"-"`
	// Transport sends the requests; nil: the Place creates a transport.
	Transport http.RoundTripper `yaml:"-"`
	// Wrap decorates the transport that sends the requests; nil: the transport is not decorated.
	Wrap   func(http.RoundTripper) http.RoundTripper `yaml:"-"`
	Logger *slog.Logger                              `yaml:"-"` // nil: no logging
	Now    func() time.Time                          `yaml:"-"` // nil: time.Now
}

// Settings configures how a template hosts agents. The zero value means the defaults.
type Settings struct {
	RoleParameter string `yaml:"role_parameter"` // empty: the first of role, agent_role and fleet_role that the template has
	SpecParameter string `yaml:"spec_parameter"` // empty: the first of spec, fleet_spec, AI Prompt and ai_prompt that the template has
	App           string `yaml:"app"`            // slug of the app to connect to; empty: the first of fleet-runner and, for AgentAPI, agentapi, ccw and claude-code that the workspace has
	// SpecIsTask says that the agent starts to work on its specification at once, as on a prompt. If it is nil, that is
	// so if the parameter is AI Prompt or ai_prompt.
	SpecIsTask *bool `yaml:"spec_is_task"`
	// Credential names the key or the subscription with which the agents use their model. Empty: it is not known.
	Credential string `yaml:"credential"`
	// MaxCostUSD is what a task may cost if its caller does not say; 0: no limit.
	MaxCostUSD float64 `yaml:"max_cost_usd"`
	// Delegate says what agents may delegate, by role. Agents with other roles may not delegate.
	Delegate map[string]*fleet.Grant `yaml:"delegate"`
	// Repository is the URL of the repository into which the work of agents lands. Empty: the remote of the clone in the workspace that
	// lands it.
	Repository string `yaml:"repository"`
	Branch     string `yaml:"branch"` // into which work lands; empty: the repository's default branch
	// Lander is the agent whose workspace brings work together, checks it, and pushes with its credentials. Empty: any of the project,
	// which is only possible if one Coder user owns all workspaces.
	Lander string `yaml:"lander"`
	// Checks are shell commands. Those of a project run in the agent's clone after each of its tasks, and in a clean tree of what lands.
	Checks       []string      `yaml:"checks"`
	CheckTimeout time.Duration `yaml:"check_timeout"` // limit for each command; 0: 10 min
	Retries      *int          `yaml:"retries"`       // how often the agent may try again after a failed check; nil: once

	Prefix *string `yaml:"prefix"` // prefix of the names of agents' workspaces; nil: agent-
	// Access restricts a project to groups. If it is nil, the project has the access of its template's organization,
	// else the access for all projects.
	Access *fleet.ProjectAccess `yaml:"access"`
}

// Project configures a template.
type Project struct {
	Template string `yaml:"template"` // name of the template; empty: the name of the project
	Settings `yaml:",inline"`
}

// Organization configures the templates of an organization.
type Organization struct {
	Access *fleet.ProjectAccess `yaml:"access"` // for projects without their own access
}

// UnmarshalYAML reads a project, or only the name of its template: `Setup: setup-devcontainer`.
func (p *Project) UnmarshalYAML(unmarshal func(any) error) error {
	var name string
	if err := unmarshal(&name); err == nil {
		*p = Project{Template: name}
		return nil
	}
	type plain Project
	return unmarshal((*plain)(p))
}

// Values of Config.Owner.
const (
	OwnerSelf      = "self"
	OwnerPrincipal = "principal"
)

// DefaultPrefix is the default prefix of the names of agents' workspaces.
const DefaultPrefix = "agent-"

const defaultPollInterval = 3 * time.Second

// Defaults for the names of parameters and apps. A template with a role parameter, a specification parameter or one of
// hostParameters can host agents.
var (
	roleParameters = []string{"role", "agent_role", "fleet_role"}
	specParameters = []string{"spec", "fleet_spec", "AI Prompt", "ai_prompt"}
	hostParameters = []string{"system_prompt", keyParameter}
	appSlugs       = []string{runnerSlug, "agentapi", "ccw", "claude-code"}
)

// ownerParameter is the parameter for the name of the agent's owner. If one Coder user owns all workspaces, it lets
// Fleet read from Coder whose agent a workspace hosts.
const ownerParameter = "fleet_owner"

// DefaultMetadata returns the default mapping of metadata.
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

// prepare validates the configuration, fills in the defaults, and returns the parsed URL.
func (c *Config) prepare() (*url.URL, error) {
	if c.URL == "" {
		return nil, errors.New("coder.url is not set: set it in the configuration, or CODER_URL")
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("coder.url is %q: write it like https://coder.example.com", redactURL(c.URL))
	}
	if u.User != nil || u.RawQuery != "" {
		return nil, fmt.Errorf("coder.url is %q: leave out everything but scheme, host and path", u.Redacted())
	}
	u.Path = strings.TrimRight(u.Path, "/")
	if c.Token == nil {
		return nil, errors.New("there is no Coder session token: set CODER_SESSION_TOKEN, coder.token_file, or log in with `coder login`")
	}
	if c.User != "" {
		id, err := uuid.Parse(c.User)
		if err != nil {
			return nil, fmt.Errorf("coder.user is %q: it must be the id of a Coder user, which `coder users show me` prints", c.User)
		}
		c.User = id.String()
	}
	switch c.Owner {
	case "":
		if c.Owner = OwnerSelf; c.Users != nil {
			c.Owner = OwnerPrincipal
		}
	case OwnerSelf, OwnerPrincipal:
	default:
		return nil, fmt.Errorf("coder.owner must be self or principal, not %q", c.Owner)
	}
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("coder: %w", err)
	}
	if err := c.checkProjects(); err != nil {
		return nil, err
	}
	if err := c.checkFleetURL(); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.Organizations)) {
		if err := c.Organizations[name].Access.Validate(); err != nil {
			return nil, fmt.Errorf("coder.organizations.%s: %w", name, err)
		}
	}
	metadata := DefaultMetadata()
	maps.Copy(metadata, c.Metadata)
	c.Metadata = metadata
	if c.PollInterval < 0 {
		return nil, fmt.Errorf("coder.poll_interval is %s: it must not be negative", c.PollInterval)
	}
	if c.PollInterval == 0 {
		c.PollInterval = defaultPollInterval
	}
	if c.RenewHint == "" {
		c.RenewHint = "use a valid token"
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
	projects := map[string]Project{}
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
		if other, isTaken := templates[key]; isTaken {
			return fmt.Errorf("coder.projects: %s and %s name the same template, %s: leave one out", other, name, p.Template)
		}
		templates[key] = name
		if err := p.validate(); err != nil {
			return fmt.Errorf("coder.projects.%s: %w", name, err)
		}
		p.Settings = p.withDefaults(c.Settings)
		projects[name] = p
	}
	c.Projects = projects
	return nil
}

func (s Settings) validate() error {
	if s.Prefix != nil && !prefixPattern.MatchString(*s.Prefix) {
		return fmt.Errorf("prefix must consist of letters, digits and single hyphens, and start with a letter or digit, like agent-; got %q", *s.Prefix)
	}
	if err := s.checks().Validate(); err != nil {
		return errors.New(fleet.PublicMessage(err))
	}
	for role, g := range s.Delegate {
		if err := g.Validate(); err != nil {
			return fmt.Errorf("role %q: %s", role, fleet.PublicMessage(err))
		}
	}
	if usd := s.MaxCostUSD; usd != 0 {
		if err := (fleet.TaskOptions{MaxCostUSD: &usd}).Validate(); err != nil {
			return errors.New(fleet.PublicMessage(err))
		}
	}
	return s.Access.Validate()
}

// withDefaults returns s with the fields that are not set copied from d. It does not copy Access, see Place.groups.
func (s Settings) withDefaults(d Settings) Settings {
	if s.RoleParameter == "" {
		s.RoleParameter = d.RoleParameter
	}
	if s.SpecParameter == "" {
		s.SpecParameter = d.SpecParameter
	}
	if s.App == "" {
		s.App = d.App
	}
	if s.Delegate == nil {
		s.Delegate = d.Delegate
	}
	if s.Credential == "" {
		s.Credential = d.Credential
	}
	if s.MaxCostUSD == 0 {
		s.MaxCostUSD = d.MaxCostUSD
	}
	if s.SpecIsTask == nil {
		s.SpecIsTask = d.SpecIsTask
	}
	if s.Prefix == nil {
		s.Prefix = d.Prefix
	}
	s.Repository, s.Branch, s.Lander = cmp.Or(s.Repository, d.Repository), cmp.Or(s.Branch, d.Branch), cmp.Or(s.Lander, d.Lander)
	s.CheckTimeout, s.Retries = cmp.Or(s.CheckTimeout, d.CheckTimeout), cmp.Or(s.Retries, d.Retries)
	if s.Checks == nil {
		s.Checks = d.Checks
	}
	return s
}

func (s Settings) checks() fleet.Checks {
	return fleet.Checks{Commands: s.Checks, Timeout: s.CheckTimeout, Retries: s.Retries}
}

func (s Settings) prefix() string {
	if s.Prefix == nil {
		return DefaultPrefix
	}
	return *s.Prefix
}

func (s Settings) slugs() []string { return oneOrAll(s.App, appSlugs) }

func oneOrAll(one string, list []string) []string {
	if one != "" {
		return []string{one}
	}
	return list
}

// redactURL returns the URL without its password.
func redactURL(address string) string {
	if u, err := url.Parse(address); err == nil {
		return u.Redacted()
	}
	return "not an address"
}
