//go:build cgo

package run

import (
	"encoding/json"
	"slices"

	"github.com/docker/cagent/pkg/config/latest"
	"github.com/docker/cagent/pkg/permissions"
	"github.com/docker/cagent/pkg/tools"

	"fleet/internal/fleet"
)

// rules say which tools a run may use.
type rules struct {
	deny      *permissions.Checker
	allow     *permissions.Checker // tools that are allowed by name
	allowOnly bool                 // no other tools are allowed
}

// newRules returns the rules of the definition and the agent's configuration. Both can deny tools. If the configuration has an
// Allow list, only the tools in it are allowed, and the definition's list does not count.
func newRules(doc *latest.PermissionsConfig, agentConfig *fleet.AgentConfig) rules {
	if doc == nil {
		doc = &latest.PermissionsConfig{}
	}
	newChecker := func(allow, deny []string) *permissions.Checker {
		return permissions.NewChecker(&latest.PermissionsConfig{Allow: allow, Deny: deny})
	}
	r := rules{deny: newChecker(nil, slices.Concat(doc.Deny, agentConfig.Deny)), allow: newChecker(doc.Allow, nil)}
	if agentConfig.Allow != nil {
		r.allow, r.allowOnly = newChecker(agentConfig.Allow, nil), true
	}
	return r
}

// refusal returns why the tool must not be used, or "" if it may be used. approved means that the tools of its toolset
// need no permission.
func (r rules) refusal(t *tools.Tool, arguments string, approved bool) string {
	var args map[string]any
	_ = json.Unmarshal([]byte(arguments), &args) // if the arguments are not an object, match by name only
	switch {
	case r.deny.CheckWithArgs(t.Name, args) == permissions.Deny:
		return "is denied by the agent's definition"
	case r.allow.CheckWithArgs(t.Name, args) == permissions.Allow:
		return ""
	case r.allowOnly:
		return "is not among the tools that the agent may use"
	case approved || t.Annotations.ReadOnlyHint:
		return ""
	}
	return "needs an approval, and there is nobody to ask: the agent's definition has to allow it (permissions.allow, in version \"3\" of definitions)"
}
