package fleet

import (
	"slices"
	"time"
)

// Access is what a principal may do with an agent.
type Access string

// The levels of access. Each includes those before it.
const (
	AccessNone Access = ""     // the agent does not exist for the principal
	AccessView Access = "view" // see the agent, its tasks, and what they put out
	AccessRun  Access = "run"  // give it tasks, stop them, send messages, answer questions
	AccessOwn  Access = "own"  // everything
)

var accessOrder = []Access{AccessNone, AccessView, AccessRun, AccessOwn}

// Allows reports whether the access includes what is needed.
func (a Access) Allows(needed Access) bool {
	return slices.Index(accessOrder, a) >= slices.Index(accessOrder, needed)
}

// Grantee is a person or a group. One of the fields is set.
type Grantee struct {
	Person string `json:"person,omitempty"` // name of a principal
	Group  string `json:"group,omitempty"`
}

// String returns the grantee in words.
func (g Grantee) String() string {
	if g.Group != "" {
		return "group " + g.Group
	}
	return g.Person
}

// Share gives a person or a group access to an agent of another owner.
type Share struct {
	Grantee
	Access Access    `json:"access"` // AccessView or AccessRun
	By     string    `json:"by"`     // name of the principal who has shared it
	At     time.Time `json:"at"`
}

// Grantees returns those whose shares are good for p: p and its groups. An agent with a token of its own has none.
func (p Principal) Grantees() []Grantee {
	if p.AgentUID != "" {
		return nil
	}
	all := []Grantee{{Person: p.Name}}
	for _, g := range p.Groups {
		all = append(all, Grantee{Group: g})
	}
	return all
}

// is reports whether g is p, or a group that p is in.
func (p Principal) is(g Grantee) bool {
	if p.AgentUID != "" {
		return false
	}
	if g.Group != "" {
		return slices.Contains(p.Groups, g.Group)
	}
	return g.Person == p.Name
}
