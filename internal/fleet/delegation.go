package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Delegation is what a task has to do with tasks that agents delegate to others: who has delegated it, and what it delegates itself.
// Task.ParentID and Task.RootID say where it is in its tree.
type Delegation struct {
	Depth    int    `json:"depth,omitempty"`    // number of tasks above it
	Detached bool   `json:"detached,omitempty"` // it goes on when its parent ends
	Wake     Wake   `json:"wake,omitempty"`     // what its end means for its parent
	Limit    Micros `json:"limit,omitempty"`    // what its parent lets it cost; 0: no limit
	// Backed and Taken are tries of the parent, from 1: the reservations of that try contain what this task may cost, or did so until this
	// task took it over.
	Backed     int `json:"backed,omitempty"`
	Taken      int `json:"taken,omitempty"`
	MaxRunning int `json:"max_running,omitempty"` // how many tasks below the root may run at once; 0: no limit

	Grant    *Grant `json:"grant,omitempty"`    // what its agent may delegate, see the last dispatch; nil: nothing
	Children int    `json:"children,omitempty"` // number of tasks that it has delegated
	Awaited  int    `json:"awaited,omitempty"`  // number of those that have not ended, and whose results it gets
	Given    Micros `json:"given,omitempty"`    // what its children may cost, and what those have cost that have ended
	Waits    bool   `json:"waits,omitempty"`    // its turn is over, and it waits for results
	Ready    bool   `json:"ready,omitempty"`    // the results for which it waits are there
	// Conversation is the agent's conversation in which it waits, see Agent.Conversation.
	Conversation string `json:"conversation,omitempty"`
	WokenTry     int    `json:"woken_try,omitempty"` // the try in which it has gone on, or will go on, with results
	Turns        int    `json:"turns,omitempty"`     // how often it has waited for results

	// These are of a root.
	Total int         `json:"total,omitempty"` // number of tasks below it
	Made  []time.Time `json:"made,omitempty"`  // when those of the last minute were delegated
}

// IsZero reports whether the task is in no tree, and may delegate nothing.
func (d *Delegation) IsZero() bool {
	return d.Depth == 0 && d.Grant == nil && d.Children == 0 && d.Total == 0 && !d.Waits && d.Turns == 0
}

// Limited returns what the task may cost, of a limit and of what its parent lets it cost. 0 means no limit.
func (d *Delegation) Limited(limit Micros) Micros {
	if d.Limit > 0 && (limit == 0 || d.Limit < limit) {
		return d.Limit
	}
	return limit
}

// OnParentEnd says what becomes of a delegated task when its parent ends.
type OnParentEnd string

// The values of OnParentEnd.
const (
	ParentEndStop   OnParentEnd = "stop" // the default
	ParentEndDetach OnParentEnd = "detach"
)

// Wake says what the end of a delegated task means for its parent.
type Wake string

// The values of Wake.
const (
	WakeAll   Wake = "all"  // a parent whose turn is over goes on when all such tasks have ended
	WakeEach  Wake = "each" // it goes on when this one has ended
	WakeNone  Wake = "none" // it does not wait, but gets the result with its next turn
	WakeQuiet Wake = ""     // it gets the result in another way: as the answer of the call that has delegated it
)

// wakes are the values of Wake that a caller can choose.
var wakes = []Wake{WakeAll, WakeEach, WakeNone}

// ParseWake returns INVALID_ARGUMENT if the text is not one of the values. The default is WakeAll.
func ParseWake(text string) (Wake, error) {
	switch {
	case text == "":
		return WakeAll, nil
	case slices.Contains(wakes, Wake(text)):
		return Wake(text), nil
	}
	return "", Invalid(ReasonInvalidArgument, "wake", "wake is %q: give %s", Shorten(text, 40), oneOf(wakes))
}

// Awaited reports whether a parent whose turn is over waits for the task.
func (w Wake) Awaited() bool { return w == WakeAll || w == WakeEach }

// Root returns the id of the root of the task's tree, which may be the task itself.
func (t *Task) Root() string {
	if t.RootID != "" {
		return t.RootID
	}
	return t.ID
}

// DelegatedAct is what an agent may do with the tasks that it delegates.
type DelegatedAct string

// The acts. Whoever may delegate anything may look at its tasks, and wait for them.
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
	Roles       []string       `yaml:"roles" json:"roles,omitempty"` // empty: all roles
	MaxDepth    int            `yaml:"max_depth" json:"max_depth"`   // in a task's grant: the greatest depth of tasks below it
	MaxChildren int            `yaml:"max_children" json:"max_children"`
	MaxRunning  int            `yaml:"max_running" json:"max_running"`
	MaxTotal    int            `yaml:"max_total" json:"max_total"`
	PerMinute   int            `yaml:"per_minute" json:"per_minute"`
	MaxCostUSD  float64        `yaml:"max_cost_usd" json:"max_cost_usd,omitempty"` // of all children of a task together; 0: no limit but that of the task
	May         []DelegatedAct `yaml:"may" json:"may,omitempty"`                   // empty: everything
}

// Limits of grants.
const (
	maxGrantDepth = 8
	maxGrantTasks = 1000
)

// WithDefaults returns the grant of a role of the project, with the defaults of what it leaves out; nil for nil.
func (g *Grant) WithDefaults(project string) *Grant {
	if g == nil {
		return nil
	}
	d := *g
	for value, otherwise := range map[*int]int{&d.MaxDepth: 2, &d.MaxChildren: 8, &d.MaxRunning: 4, &d.MaxTotal: 32, &d.PerMinute: 10} {
		if *value == 0 {
			*value = otherwise
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
		return Invalid(ReasonInvalidArgument, field, "delegate."+field+" "+format, args...)
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

// AllowsProject reports whether tasks may be delegated to agents with the role in the project.
func (g *Grant) AllowsProject(r ProjectRole) bool {
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

// Within returns what both the grant of a task and that of its parent allow. The depth of the task's tree counts from its root.
func (g *Grant) Within(parent *Grant, depth int) *Grant {
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

// common returns the values of a that are in b too.
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

// DelegationRefused returns the error for a task that a grant does not allow. used is how much of the limit is used; limits without a
// number have 0.
func DelegationRefused(limit string, used, most any, format string, args ...any) *Error {
	return Errorf(ReasonDelegationRefused, format, args...).With("limit", limit).With("used", fmt.Sprint(used)).With("max", fmt.Sprint(most))
}
