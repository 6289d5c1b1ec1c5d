package acp

import (
	"cmp"
	"encoding/json"
	"strings"
)

// Rules say which requests for permission are answered without asking anybody. Each is written like those of a Policy.
type Rules struct {
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
	Ask   []string `json:"ask,omitempty"` // asked although Allow has it too
}

// Decide reports whether the rules allow the use of a tool. decided is false if somebody is to be asked. title is what the
// program calls the use, and sort the kind of tool in the protocol's words; both may be empty.
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
	seen := c // what denies may also look at a command that is in the title alone
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
