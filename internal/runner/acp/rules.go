package acp

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Rules decide which tool calls are allowed, which are denied, and about which a person is asked. Deny comes first, then Ask,
// then Allow. A person is also asked about a call that no rule matches. Policy describes the syntax of a rule.
type Rules struct {
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
	Ask   []string `json:"ask,omitempty"`
}

// These limit the suggestions that Suggest considers.
const (
	maxRuleBytes = 500 // of a rule
	maxRules     = 5
	maxWord      = 200 // in bytes
)

var wordPattern = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

func isWord(s string) bool { return len(s) <= maxWord && wordPattern.MatchString(s) }

// Suggest returns rules that would allow the call without asking if they were added to r. It returns nil if it finds none, for
// example because r asks about the call or denies it in any case. It returns the suggestions of the agent only if they are
// about this tool and, for a command, about the same program, because the agent is not trusted. Otherwise it returns one rule of
// its own: for exactly this command line or, if the tool runs no commands, for all calls of the tool. The other arguments are
// those of Decide.
func (r Rules) Suggest(suggestions []string, tool, title, kind string, input []byte) []string {
	allows := func(rules []string) bool {
		candidate := Rules{Allow: rules, Deny: r.Deny, Ask: r.Ask}
		allowed, decided, _ := candidate.Decide(tool, title, kind, input)
		return allowed && decided
	}
	c := callOf(tool, title, kind, input)
	var commandLine string
	if c.Kind == "execute" {
		if all := c.subjects(); len(all) == 1 {
			commandLine = all[0]
		}
	}
	rules := suggestions[:0:0]
	for _, rule := range suggestions[:min(len(suggestions), maxRules)] {
		name, pattern, hasPattern := parseRule(rule)
		if len(rule) > maxRuleBytes || strings.ContainsFunc(rule, unicode.IsControl) || !utf8.ValidString(rule) || !isWord(name) || !c.hasName(name, wholeCall) {
			continue
		}
		if c.Kind != "execute" || hasPattern && startsAlike(pattern, commandLine) {
			rules = append(rules, rule)
		}
	}
	if len(rules) > 0 && allows(rules) {
		return rules
	}
	switch {
	case !isWord(tool):
		return nil
	case c.Kind == "execute" && (commandLine == "" || strings.Contains(commandLine, "*") || len(commandLine) > maxRuleBytes || strings.ContainsFunc(commandLine, unicode.IsControl)):
		return nil
	case c.Kind == "execute":
		rules = []string{tool + "(" + commandLine + ")"}
	default:
		rules = []string{tool}
	}
	if !allows(rules) {
		return nil
	}
	return rules
}

// startsAlike reports whether everything that the pattern matches begins with the first word of a part of the command.
func startsAlike(pattern, command string) bool {
	prefix, _, _ := strings.Cut(strings.TrimSuffix(pattern, ":*")+" ", "*")
	words := strings.Fields(prefix)
	parts, ok := splitCommands(command)
	if !ok {
		parts = []string{command}
	}
	return len(words) > 0 && strings.HasPrefix(prefix, words[0]+" ") && slices.ContainsFunc(parts, func(part string) bool { return strings.HasPrefix(part+" ", words[0]+" ") })
}

// Decide reports whether the rules allow a call of the tool, and why. decided is false if a person must decide. title is the
// program's description of the call, and kind is the protocol's kind of tool. Both may be empty. input are the arguments of
// the call, as a JSON object.
func (r Rules) Decide(tool, title, kind string, input []byte) (allowed, decided bool, why string) {
	c := callOf(tool, title, kind, input)
	withTitle := c.withTitleCommand()
	if rule := withTitle.matchingRule(r.Deny, anyPart); rule != "" {
		return false, true, "denied by the rule " + rule
	}
	if rule := withTitle.matchingRule(r.Ask, anyPart); rule != "" {
		return false, false, "asked because of the rule " + rule
	}
	if rule := c.matchingRule(r.Allow, wholeCall); rule != "" {
		return true, true, "allowed by the rule " + rule
	}
	return false, false, "no rule allows it"
}

// callOf returns the call that the arguments of Decide describe.
func callOf(tool, title, kind string, input []byte) call {
	c := call{Title: cmp.Or(title, tool), Kind: cmp.Or(kind, kindOf(tool)), RawInput: input}
	if tool != kind {
		c.Meta.Claude.Tool = tool
	}
	return c
}
