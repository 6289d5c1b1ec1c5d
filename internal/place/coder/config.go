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

	// User is the id of the Coder user to whom Fleet's token must belong. If it is empty, the token must belong to the user whose
	// token was used first (see RememberUser). With another user's token, the place refuses every request.
	User string `yaml:"user"`

	// TokenFile is the path of a file with the session token, for FindToken. If it is empty, the token comes from the
	// environment or from Coder's own login.
	TokenFile string `yaml:"token_file"`

	// FleetURL is the address at which workspaces reach Fleet. Without it, their agents cannot report, run subagents or delegate
	// tasks.
	FleetURL string `yaml:"fleet_url"`

	Settings `yaml:",inline"`

	// Projects configures templates, by project name. Templates that can host agents are projects even if they are not
	// listed here.
	Projects map[string]Project `yaml:"projects"`

	// Organizations configures the templates of organizations, by the name of the organization.
	Organizations map[string]Organization `yaml:"organizations"`

	// Metadata maps keys of Fleet to metadata items of a template. A key that is missing here is mapped as in DefaultMetadata. An
	// empty value turns the key off.
	Metadata map[string]string `yaml:"metadata"`

	PollInterval time.Duration `yaml:"poll_interval"` // how often workspaces are listed; 0: 3 s

	// Token returns the session token. Place calls it before every request, because the token can change. Users see the texts of
	// its errors.
	Token func(context.Context) (string, error) `yaml:"-"`
	// RememberUser stores the id of the Coder user if none is stored yet, and returns the stored id. With it, the place refuses
	// another user's token even after a restart. If it is nil, the user of this process's first token counts.
	RememberUser func(ctx context.Context, user string) (stored string, err error) `yaml:"-"`
	// RenewHint tells people what to do if Coder does not accept the token, see RenewTokenHint. The default is to use a valid
	// token.
	RenewHint string `yaml:"-"`
	// Users maps principals to the Coder users that they have signed in as; nil if principals cannot sign in with Coder.
	Users Users `yaml:"-"`
	// RunnerKey signs requests to fleet-runner. If it is nil, workspaces with a fleet-runner cannot be used.
	RunnerKey ed25519.PrivateKey `yaml:"-"`
	// Transport sends the requests; nil: the Place creates a transport.
	Transport http.RoundTripper `yaml:"-"`
	// WrapTransport returns a transport that wraps the given one; nil: the transport is used as it is.
	WrapTransport func(http.RoundTripper) http.RoundTripper `yaml:"-"`
	Logger        *slog.Logger                              `yaml:"-"` // nil: no logging
	Now           func() time.Time                          `yaml:"-"` // nil: time.Now
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
	hostParameters = []string{"system_prompt", publicKeyParameter}
	appSlugs       = []string{runnerSlug, "agentapi", "ccw", "claude-code"}
)

// ownerParameter is the parameter for the name of the agent's owner. If one Coder user owns all workspaces, Fleet can read
// from it who owns the agent in a workspace.
const ownerParameter = "fleet_owner"

// DefaultMetadata returns the default mapping of metadata.
func DefaultMetadata() map[string]string {
	return map[string]string{
		specMetadataKey:                       "agent_spec",
		"fleet_mcp_pull_request_url":          "pull_request_url",
		"fleet_mcp_pull_request_status":       "pull_request_status",
		"fleet_mcp_pull_request_check_status": "check_status",
	}
}

// specMetadataKey is the metadata key of an agent's specification.
const specMetadataKey = "fleet_mcp_agent_spec"

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
	if err := c.prepareProjects(); err != nil {
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
	c.PollInterval = cmp.Or(c.PollInterval, defaultPollInterval)
	c.RenewHint = cmp.Or(c.RenewHint, "use a valid token")
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return u, nil
}

// prepareProjects validates the configured projects, and fills in their templates and the settings that they share.
func (c *Config) prepareProjects() error {
	projects := map[string]Project{}
	templates := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.Projects)) {
		p := c.Projects[name]
		if strings.TrimSpace(name) == "" {
			return errors.New("coder.projects: a project needs a name")
		}
		p.Template = cmp.Or(p.Template, name)
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

// redactURL returns the URL without its password, for an error.
func redactURL(address string) string {
	if u, err := url.Parse(address); err == nil {
		return u.Redacted()
	}
	return "not an address"
}

// checkFleetURL returns an error if FleetURL is not valid, or if it is missing although agents may delegate.
func (c *Config) checkFleetURL() error {
	if c.FleetURL == "" {
		mayDelegate := len(c.Delegate) > 0
		for _, p := range c.Projects {
			mayDelegate = mayDelegate || len(p.Delegate) > 0
		}
		if mayDelegate {
			return errors.New("coder.delegate needs coder.fleet_url, the address at which workspaces reach this server")
		}
		return nil
	}
	u, err := url.Parse(c.FleetURL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return fmt.Errorf("coder.fleet_url is %q: give an address such as https://fleet.example.com", fleet.Shorten(c.FleetURL, 100))
	}
	return nil
}
