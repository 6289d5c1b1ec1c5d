package acp

import (
	"cmp"
	"encoding/json"
	"strings"
)

// Rules answer requests for permission without asking anybody. Policy describes the syntax of a rule.
type Rules struct {
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
	Ask   []string `json:"ask,omitempty"` // ask, even if Allow matches
}

// Decide reports whether the rules allow a tool call, and why. decided is false if a person must decide. title is the
// program's description of the call, and sort is the protocol's kind of tool. Both may be empty.
func (r Rules) Decide(tool, title, sort string, input []byte) (allowed, decided bool, why string) {
	c := call{Title: cmp.Or(title, tool), Kind: sort, RawInput: input}
	if tool != sort {
		c.Meta.Claude.Tool = tool
	}
	if c.Kind == "" {
		if c.Kind = kinds[strings.ToLower(tool)]; c.Kind == "" {
			c.Kind = strings.ToLower(tool)
		}
	}
	seen := c // deny rules also check a command that is only in the title
	if c.Kind == "execute" && len(c.subjects()) == 0 {
		seen.RawInput, _ = json.Marshal(map[string]string{"command": c.Title})
	}
	if rule := seen.match(r.Deny, false); rule != "" {
		return false, true, "denied by the rule " + rule
	}
	if rule := seen.match(r.Ask, false); rule != "" {
		return false, false, "asked because of the rule " + rule
	}
	if rule := c.match(r.Allow, true); rule != "" {
		return true, true, "allowed by the rule " + rule
	}
	return false, false, "no rule allows it"
}
