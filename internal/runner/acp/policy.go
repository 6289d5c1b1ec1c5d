package acp

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Policy decides which permissions the program gets. It decides about calls that a rule matches and, if Edits is set,
// about edits in the program's working directory. It does not decide about other calls.
//
// A rule is the name of a tool, of a kind of tools, or of an MCP server ("mcp__tracker"). A pattern in parentheses may
// follow, in which * matches any text: "Bash(go test *)". The pattern is matched against the command, path or URL of
// the call.
type Policy struct {
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
	Edits bool     `json:"edits,omitempty"` // the program may change files in its working directory

	dir string // the program's working directory
}

// FindReadRule returns the first rule about reading, searching or thinking. Such a rule has no effect, because programs do not
// ask for permission before they do that. FindReadRule returns an empty string if there is no such rule.
func FindReadRule(rules []string) string {
	for _, rule := range rules {
		name, _, _ := parseRule(rule)
		if slices.Contains([]string{"read", "search", "think"}, kindOf(name)) {
			return rule
		}
	}
	return ""
}

// decide reports whether the policy allows the call, and why. decided is false if the policy does not decide about the call.
func (p Policy) decide(c call) (allowed, decided bool, why string) {
	if rule := c.withTitleCommand().matchingRule(p.Deny, anyPart); rule != "" {
		return false, true, "denied by " + rule
	}
	if rule := c.matchingRule(p.Allow, wholeCall); rule != "" {
		return true, true, "allowed by " + rule
	}
	if p.Edits && c.Kind == "edit" && c.isWithin(p.dir) {
		return true, true, "the agent may change files"
	}
	return false, false, "no rule allows it"
}

// resolveLinks returns the path without symbolic links. The path must be absolute, and its end may not exist yet. ok is false for a
// link whose target does not exist, because a program that writes to the link would create the target.
func resolveLinks(path string) (target string, ok bool) {
	target, err := filepath.EvalSymlinks(path)
	if err == nil {
		return target, true
	}
	if _, err := os.Lstat(path); err == nil || !errors.Is(err, fs.ErrNotExist) || path == filepath.Dir(path) {
		return "", false
	}
	parent, ok := resolveLinks(filepath.Dir(path))
	return filepath.Join(parent, filepath.Base(path)), ok
}
