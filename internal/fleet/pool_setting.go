package fleet

import (
	"cmp"
	"fmt"
	"reflect"
	"time"
)

// PoolSetting is a pool in the configuration.
type PoolSetting struct {
	Name        string            `yaml:"name"`
	Owner       string            `yaml:"owner"`   // of its agents; empty: LocalPrincipal
	Project     string            `yaml:"project"` // a name, or PLACE/NAME
	Role        string            `yaml:"role"`    // empty: the project's default role
	Spec        string            `yaml:"spec"`
	Groups      []string          `yaml:"groups"`
	Parameters  map[string]string `yaml:"parameters"`
	Labels      Labels            `yaml:"labels"`
	MinIdle     int               `yaml:"min_idle"`
	MaxAgents   int               `yaml:"max_agents"`
	MaxCreating int               `yaml:"max_creating"`
	MaxIdle     time.Duration     `yaml:"max_idle"`
	Reuse       ReusePolicy       `yaml:"reuse"`
}

// Pool returns the pool without its project and its role, because only the place knows their exact names.
func (s PoolSetting) Pool() Pool {
	p := Pool{
		Name: s.Name, Owner: cmp.Or(s.Owner, LocalPrincipal), Groups: s.Groups, Spec: s.Spec, Parameters: s.Parameters, Labels: s.Labels,
		MinIdle: s.MinIdle, MaxAgents: s.MaxAgents, MaxCreating: s.MaxCreating, MaxIdle: s.MaxIdle, Reuse: s.Reuse,
		Authorization: Authorization{Kind: KindHuman, Scope: ScopeRun}, Configured: true,
	}
	p.SetDefaults()
	return p
}

// ValidatePools returns an error that names the first invalid setting.
func ValidatePools(all []PoolSetting) error {
	if len(all) > MaxPools {
		return fmt.Errorf("pools has %d entries: give at most %d", len(all), MaxPools)
	}
	keys := map[string]bool{}
	for i, s := range all {
		p := s.Pool()
		if err := p.Validate(); err != nil {
			return fmt.Errorf("pools[%d]: %w", i, err)
		}
		switch {
		case s.Project == "":
			return fmt.Errorf("pools[%d]: the pool %s has no project: name the one that its agents work on", i, s.Name)
		case keys[p.Key()]:
			return fmt.Errorf("pools[%d]: the pool %s is there twice", i, s.Name)
		}
		keys[p.Key()] = true
	}
	return nil
}

// SameSetting reports whether both pools have the same settings. It ignores what Fleet has recorded about their agents.
func (p *Pool) SameSetting(other *Pool) bool {
	a, b := *p, *other
	for _, x := range []*Pool{&a, &b} {
		x.CreatingUIDs, x.Failures, x.FailureReason, x.RetryAt, x.CreatedAt, x.UpdatedAt = nil, 0, "", time.Time{}, time.Time{}, time.Time{}
		if len(x.Groups) == 0 {
			x.Groups = nil
		}
		if len(x.Parameters) == 0 {
			x.Parameters = nil
		}
		x.Labels = x.Labels.With(nil)
	}
	return reflect.DeepEqual(a, b)
}
