package coder

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"fleet/internal/fleet"
)

// Settings configures how a template hosts agents. The zero value means the defaults.
type Settings struct {
	RoleParameter string `yaml:"role_parameter"` // empty: the first of role, agent_role and fleet_role that the template has
	SpecParameter string `yaml:"spec_parameter"` // empty: the first of spec, fleet_spec, AI Prompt and ai_prompt that the template has
	App           string `yaml:"app"`            // slug of the app to connect to; empty: the first that the workspace has of fleet-runner, agentapi, ccw and claude-code (the last three are AgentAPI)
	// SpecIsTask says whether the agent starts to work on its specification at once, as on a prompt. nil means that it does if
	// the parameter is AI Prompt or ai_prompt.
	SpecIsTask *bool `yaml:"spec_is_task"`
	// Credential names the key or the subscription with which the agents use their model. Empty means that it is not known.
	Credential string `yaml:"credential"`
	// MaxCostUSD limits the cost of a task whose caller sets no limit; 0: no limit.
	MaxCostUSD float64 `yaml:"max_cost_usd"`
	// Delegate says what agents may delegate, by role. Agents whose role is not listed may not delegate.
	Delegate map[string]*fleet.Grant `yaml:"delegate"`
	// Repository is the URL of the repository in which the work of agents lands. Empty means the remote of the clone in the
	// workspace that lands the work.
	Repository string `yaml:"repository"`
	Branch     string `yaml:"branch"` // the branch in which work lands; empty: the repository's default branch
	// Lander is the agent whose workspace brings work together, checks it, and pushes with its credentials. Empty means any agent
	// of the project, which is only possible if one Coder user owns all workspaces. Otherwise it must be NAME@OWNER.
	Lander string `yaml:"lander"`
	// Checks are shell commands. They run in the agent's clone after each task of the project, and in a clean tree of the work
	// that lands.
	Checks       []string      `yaml:"checks"`
	CheckTimeout time.Duration `yaml:"check_timeout"` // limit for each command; 0: 10 min
	Retries      *int          `yaml:"retries"`       // how often the agent may try again after a failed check; nil: once

	Prefix *string `yaml:"prefix"` // prefix of the names of agents' workspaces; nil: agent-
	// Access restricts a project to groups. If it is nil, the project has the access of its template's organization,
	// else the access for all projects.
	Access *fleet.ProjectAccess `yaml:"access"`
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
	s.RoleParameter, s.SpecParameter = cmp.Or(s.RoleParameter, d.RoleParameter), cmp.Or(s.SpecParameter, d.SpecParameter)
	s.App, s.SpecIsTask, s.Prefix = cmp.Or(s.App, d.App), cmp.Or(s.SpecIsTask, d.SpecIsTask), cmp.Or(s.Prefix, d.Prefix)
	s.Credential, s.MaxCostUSD = cmp.Or(s.Credential, d.Credential), cmp.Or(s.MaxCostUSD, d.MaxCostUSD)
	s.Repository, s.Branch, s.Lander = cmp.Or(s.Repository, d.Repository), cmp.Or(s.Branch, d.Branch), cmp.Or(s.Lander, d.Lander)
	s.CheckTimeout, s.Retries = cmp.Or(s.CheckTimeout, d.CheckTimeout), cmp.Or(s.Retries, d.Retries)
	if s.Delegate == nil {
		s.Delegate = d.Delegate
	}
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

func (s Settings) slugs() []string { return nameOrDefaults(s.App, appSlugs) }

// nameOrDefaults returns only the configured name, or the default names if it is empty.
func nameOrDefaults(name string, defaults []string) []string {
	if name != "" {
		return []string{name}
	}
	return defaults
}
