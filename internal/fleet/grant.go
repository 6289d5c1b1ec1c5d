package fleet

import (
	"slices"
	"strings"
)

// DelegatedAct is something that an agent may do with the tasks that it delegates.
type DelegatedAct string

// These are the acts. An agent that may delegate anything may also look at its delegated tasks, and wait for them.
const (
	ActStart      DelegatedAct = "start"
	ActMessage    DelegatedAct = "message"
	ActStop       DelegatedAct = "stop"
	ActReadOutput DelegatedAct = "read_output"
	ActLook       DelegatedAct = "look"
)

// delegatedActs are the acts that a grant can name.
var delegatedActs = []DelegatedAct{ActStart, ActMessage, ActStop, ActReadOutput}

// Grant says what an agent may delegate to other agents.
type Grant struct {
	Projects    []string       `yaml:"projects" json:"projects,omitempty"` // NAME or PLACE/NAME
	Pools       []string       `yaml:"pools" json:"pools,omitempty"`
	Roles       []string       `yaml:"roles" json:"roles,omitempty"`               // empty: all roles
	MaxDepth    int            `yaml:"max_depth" json:"max_depth"`                 // levels of tasks below the agent's task; in the result of Intersect, below the root
	MaxChildren int            `yaml:"max_children" json:"max_children"`           // tasks that a task may delegate
	MaxRunning  int            `yaml:"max_running" json:"max_running"`             // tasks below the root that may run at once
	MaxTotal    int            `yaml:"max_total" json:"max_total"`                 // tasks below the root
	PerMinute   int            `yaml:"per_minute" json:"per_minute"`               // tasks below the root that may be delegated in a minute
	MaxCostUSD  float64        `yaml:"max_cost_usd" json:"max_cost_usd,omitempty"` // of all children of a task together; 0: only the task's own limit applies
	May         []DelegatedAct `yaml:"may" json:"may,omitempty"`                   // empty: everything
}

// Limits of grants.
const (
	maxGrantDepth = 8
	maxGrantTasks = 1000
)

// WithDefaults returns the grant of a role of the project, with defaults for the values that are not set; nil for nil.
func (g *Grant) WithDefaults(project string) *Grant {
	if g == nil {
		return nil
	}
	d := *g
	for value, fallback := range map[*int]int{&d.MaxDepth: 2, &d.MaxChildren: 8, &d.MaxRunning: 4, &d.MaxTotal: 32, &d.PerMinute: 10} {
		if *value == 0 {
			*value = fallback
		}
	}
	if len(d.Projects) == 0 && len(d.Pools) == 0 {
		d.Projects = []string{project}
	}
	if len(d.May) == 0 {
		d.May = delegatedActs
	}
	return &d
}

// Validate returns an error if a value of the grant in a configuration is not valid. A nil grant is valid.
func (g *Grant) Validate() error {
	if g == nil {
		return nil
	}
	refuse := func(field, format string, args ...any) error {
		return InvalidField(field, "delegate."+field+" "+format, args...)
	}
	for _, n := range []struct {
		field       string
		value, most int
	}{
		{"max_depth", g.MaxDepth, maxGrantDepth},
		{"max_children", g.MaxChildren, maxGrantTasks},
		{"max_running", g.MaxRunning, maxGrantTasks},
		{"max_total", g.MaxTotal, maxGrantTasks},
		{"per_minute", g.PerMinute, maxGrantTasks},
	} {
		if n.value < 0 || n.value > n.most {
			return refuse(n.field, "is %d: give 1 to %d", n.value, n.most)
		}
	}
	if g.MaxCostUSD < 0 || g.MaxCostUSD > MaxTaskCostUSD {
		return refuse("max_cost_usd", "is %g: give more than 0 and at most %d", g.MaxCostUSD, MaxTaskCostUSD)
	}
	for _, act := range g.May {
		if !slices.Contains(delegatedActs, act) {
			return refuse("may", "has %q: give %s", Shorten(string(act), 40), oneOf(delegatedActs))
		}
	}
	return nil
}

// Allows reports whether the grant allows the act. A nil grant allows nothing.
func (g *Grant) Allows(act DelegatedAct) bool {
	return g != nil && act != "" && (act == ActLook || slices.Contains(g.May, act))
}

// AllowsProjectRole reports whether tasks may be delegated to agents with the role in the project, because the grant has both.
func (g *Grant) AllowsProjectRole(r ProjectRole) bool {
	return slices.ContainsFunc(g.Projects, func(ref string) bool { return sameProject(ref, r.Place+"/"+r.Project) }) && g.AllowsRole(r.Role)
}

// NamesProject reports whether the reference of a caller, NAME or PLACE/NAME, is one of the grant's projects.
func (g *Grant) NamesProject(ref string) bool {
	return slices.ContainsFunc(g.Projects, func(p string) bool { return sameProject(p, ref) })
}

// AllowsRole reports whether tasks may be delegated to agents with the role.
func (g *Grant) AllowsRole(role string) bool {
	return len(g.Roles) == 0 || containsFold(g.Roles, role)
}

// Intersect returns a grant that allows only what both g and parent allow: the grants of a task and of its parent. A nil parent
// limits nothing. A nil g allows nothing, and the result is nil. depth is the depth of the task. In the result, and in parent,
// MaxDepth counts from the root of the tree.
func (g *Grant) Intersect(parent *Grant, depth int) *Grant {
	if g == nil {
		return nil
	}
	in := *g
	in.MaxDepth += depth
	if parent == nil {
		return &in
	}
	in.MaxDepth, in.MaxRunning = min(in.MaxDepth, parent.MaxDepth), min(in.MaxRunning, parent.MaxRunning)
	in.MaxChildren, in.MaxTotal, in.PerMinute = min(in.MaxChildren, parent.MaxChildren), min(in.MaxTotal, parent.MaxTotal), min(in.PerMinute, parent.PerMinute)
	if parent.MaxCostUSD > 0 && (in.MaxCostUSD == 0 || parent.MaxCostUSD < in.MaxCostUSD) {
		in.MaxCostUSD = parent.MaxCostUSD
	}
	in.Projects = common(in.Projects, parent.Projects, sameProject)
	in.Pools = common(in.Pools, parent.Pools, strings.EqualFold)
	in.May = common(in.May, parent.May, func(a, b DelegatedAct) bool { return a == b })
	switch {
	case len(in.Roles) == 0:
		in.Roles = parent.Roles
	case len(parent.Roles) > 0:
		if in.Roles = common(in.Roles, parent.Roles, strings.EqualFold); len(in.Roles) == 0 {
			in.Projects, in.Pools = nil, nil // an empty list would mean all roles
		}
	}
	return &in
}

// common returns the values of a that are also in b, as same compares them.
func common[T ~string](a, b []T, same func(a, b T) bool) []T {
	return slices.DeleteFunc(slices.Clone(a), func(x T) bool {
		return !slices.ContainsFunc(b, func(y T) bool { return same(x, y) })
	})
}

// sameProject reports whether two references name the same project. One of them may leave out the place.
func sameProject(a, b string) bool {
	return strings.EqualFold(a, b) || !strings.Contains(a, "/") && endsFold(b, "/"+a) || !strings.Contains(b, "/") && endsFold(a, "/"+b)
}

func endsFold(s, end string) bool {
	return len(s) >= len(end) && strings.EqualFold(s[len(s)-len(end):], end)
}

func containsFold(list []string, s string) bool {
	return slices.ContainsFunc(list, func(x string) bool { return strings.EqualFold(x, s) })
}
