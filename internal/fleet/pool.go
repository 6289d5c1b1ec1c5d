package fleet

import (
	"cmp"
	"time"
)

// PoolKind is the kind of the resources that are pools.
const PoolKind ResourceKind = "pool"

// Pool is a number of agents of one role that Fleet creates for queued tasks and deletes when they are idle.
type Pool struct {
	Name          string        `json:"name"`
	Owner         string        `json:"owner"` // of its agents
	Authorization Authorization `json:"by"`    // of the principal on whose behalf it creates agents
	ProjectRole
	Groups     []string          `json:"groups,omitempty"` // their members may queue tasks for it, besides its owner
	Spec       string            `json:"spec"`             // of its agents
	Parameters map[string]string `json:"parameters,omitempty"`
	Labels     Labels            `json:"labels,omitempty"` // of its agents

	MinIdle     int           `json:"min_idle,omitempty"` // idle agents that it keeps ready, as far as MaxAgents allows
	MaxAgents   int           `json:"max_agents"`         // agents that it may have
	MaxCreating int           `json:"max_creating"`       // agents that it may create at the same time
	MaxIdle     time.Duration `json:"max_idle"`           // an agent is deleted when it has had no task for this time, unless MinIdle keeps it
	Reuse       ReusePolicy   `json:"reuse"`

	Configured    bool      `json:"configured,omitempty"` // it is in the configuration, and can be changed only there
	Draining      bool      `json:"draining,omitempty"`   // it takes no new tasks, and is deleted after the last one
	CreatingUIDs  []string  `json:"creating,omitempty"`   // uids of new agents that have neither become ready nor failed, as far as is known
	Failures      int       `json:"failures,omitempty"`   // failed creations since the last agent that became ready
	FailureReason string    `json:"failure,omitempty"`    // why the last one failed
	RetryAt       time.Time `json:"retry_at,omitzero"`    // when it creates agents again
	CreatedAt     time.Time `json:"created_at"`
	UpdatedAt     time.Time `json:"updated_at"`
}

// ReusePolicy says which agent of a pool a task may get.
type ReusePolicy string

// The reuse policies.
const (
	ReuseFresh ReusePolicy = "fresh" // a new agent, which is deleted after the task
	ReuseSame  ReusePolicy = "same"  // a task that depends on another one gets that task's agent and conversation
	ReuseAny   ReusePolicy = "any"   // any agent, in a new conversation
)

// maxPoolName leaves room for a number in the names of the agents.
const maxPoolName = MaxAgentNameLength - 5

// Limits of pools.
const (
	MaxPools        = 100
	MaxPoolAgents   = 1000
	MaxPoolIdle     = 30 * 24 * time.Hour // of Pool.MaxIdle
	MaxPoolFailures = 10                  // failed creations in a row after which the pool creates no more agents
)

// Defaults of pools.
const (
	DefaultMaxAgents   = 4
	DefaultMaxCreating = 4
	DefaultMaxIdle     = 10 * time.Minute
)

// Paused reports whether the pool creates no more agents, because the creation has failed too often.
func (p *Pool) Paused() bool { return p.Failures >= MaxPoolFailures }

// Key returns the name of the pool with its owner. No two pools have the same key.
func (p *Pool) Key() string { return OwnedKey(p.Name, p.Owner) }

// Principal returns the principal on whose behalf the pool creates agents, without its groups.
func (p *Pool) Principal() Principal { return p.Authorization.Principal(p.Owner) }

// Target returns the target of tasks for the pool.
func (p *Pool) Target() Target { return Target{Pool: p.Name, ProjectRole: p.ProjectRole} }

// Admits reports whether the principal may queue tasks for the pool.
func (p *Pool) Admits(by Principal) bool {
	return by.Reaches(p.Place, p.Project) && (by.Owns(p.Owner) || by.inAny(p.Groups))
}

// SetDefaults sets the spec, the limits and the reuse policy if they are not set.
func (p *Pool) SetDefaults() {
	if p.Spec == "" {
		p.Spec = "Work on the tasks of the pool " + p.Name + "."
	}
	p.MaxAgents, p.MaxCreating = cmp.Or(p.MaxAgents, DefaultMaxAgents), cmp.Or(p.MaxCreating, DefaultMaxCreating)
	p.MaxIdle, p.Reuse = cmp.Or(p.MaxIdle, DefaultMaxIdle), cmp.Or(p.Reuse, ReuseAny)
}

// Validate returns INVALID_ARGUMENT if a value of the pool is not valid.
func (p *Pool) Validate() error {
	switch {
	case len(p.Name) > maxPoolName || !namePattern.MatchString(p.Name):
		return InvalidField("name", "the pool's name is %q: use 1 to %d letters, digits and single hyphens between them", Shorten(p.Name, 40), maxPoolName)
	case p.MaxAgents < 1 || p.MaxAgents > MaxPoolAgents:
		return InvalidField("max_agents", "max_agents is %d: give 1 to %d", p.MaxAgents, MaxPoolAgents)
	case p.MinIdle < 0 || p.MinIdle > MaxPoolAgents:
		return InvalidField("min_idle", "min_idle is %d: give 0 to %d", p.MinIdle, MaxPoolAgents)
	case p.MaxCreating < 1 || p.MaxCreating > MaxPoolAgents:
		return InvalidField("max_creating", "max_creating is %d: give 1 to %d", p.MaxCreating, MaxPoolAgents)
	case p.MaxIdle < time.Second || p.MaxIdle > MaxPoolIdle:
		return InvalidField("max_idle_seconds", "max_idle_seconds is %d: give 1 to %d", int64(p.MaxIdle.Seconds()), int64(MaxPoolIdle.Seconds()))
	case p.Reuse != ReuseFresh && p.Reuse != ReuseSame && p.Reuse != ReuseAny:
		return InvalidField("reuse", "reuse is %q: give fresh, same or any", Shorten(string(p.Reuse), 60))
	case len(p.Groups) > MaxShares:
		return InvalidField("groups", "groups has %d names: give at most %d", len(p.Groups), MaxShares)
	}
	for _, g := range p.Groups {
		if err := CheckGroup(g); err != nil {
			return InvalidField("groups", "groups: %s", err)
		}
	}
	return p.Labels.Validate("labels")
}
