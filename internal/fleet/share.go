package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Access is what a principal may do with an agent.
type Access string

// The levels of access. Each includes the levels before it.
const (
	AccessNone Access = ""     // the agent does not exist for the principal
	AccessView Access = "view" // see the agent, its tasks and their output
	AccessRun  Access = "run"  // give it tasks, stop them, send messages, answer questions
	AccessOwn  Access = "own"  // everything
)

var accessOrder = []Access{AccessNone, AccessView, AccessRun, AccessOwn}

// Allows reports whether the access includes what is needed.
func (a Access) Allows(needed Access) bool {
	return slices.Index(accessOrder, a) >= slices.Index(accessOrder, needed)
}

// Grantee is a person or a group. Exactly one of the fields is set.
type Grantee struct {
	Person string `json:"person,omitempty"` // name of a principal
	Group  string `json:"group,omitempty"`
}

// String returns the person's name, or "group " and the group's name.
func (g Grantee) String() string {
	if g.Group != "" {
		return "group " + g.Group
	}
	return g.Person
}

// MaxShares is how many shares an agent can have.
const MaxShares = 100

// maxGrantee is the longest name of a person or a group, in bytes.
const maxGrantee = 200

// Validate returns an error that names the field at fault: person or group.
func (g Grantee) Validate() error {
	for field, name := range map[string]string{"person": g.Person, "group": g.Group} {
		if len(name) > maxGrantee || strings.ContainsFunc(name, unicode.IsControl) || name != strings.TrimSpace(name) {
			return InvalidField(field, "%s %q is not a name: give at most %d bytes, without control characters and without spaces at the ends", field, Shorten(name, 60), maxGrantee)
		}
	}
	switch {
	case g.Person == "" && g.Group == "":
		return InvalidField("person", "name a person or a group")
	case g.Person != "" && g.Group != "":
		return InvalidField("group", "name a person or a group, not both: share twice")
	}
	return nil
}

// groupSources are the sources of groups. The name of a group begins with one, because two sources can have groups of the
// same name.
var groupSources = []string{"coder", "oidc"}

// CheckGroup returns an error if nobody can be in a group of this name.
func CheckGroup(name string) error {
	source, group, found := strings.Cut(name, ":")
	if !found || group == "" || !slices.Contains(groupSources, source) {
		return fmt.Errorf("group %q has no source: write oidc:GROUP, or coder:ORGANIZATION/GROUP", Shorten(name, 60))
	}
	return nil
}

// Share gives a person or a group access to an agent of another owner.
type Share struct {
	Grantee
	Access Access    `json:"access"` // AccessView or AccessRun
	By     string    `json:"by"`     // name of the principal who has shared it
	At     time.Time `json:"at"`
}

// matches reports whether g is p or one of p's groups. It returns false for an agent with its own token.
func (p Principal) matches(g Grantee) bool {
	if p.AgentUID != "" {
		return false
	}
	if g.Group != "" {
		return slices.Contains(p.Groups, g.Group)
	}
	return g.Person == p.Name
}
