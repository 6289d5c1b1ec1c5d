package acp

import (
	"regexp"
	"slices"
	"strings"
)

// splitCommands splits a shell command at the operators that combine commands. ok is false if the command has other syntax that
// can hide a command or name a file: substitutions, redirections, groups and comments. (A quote in a comment has no meaning, so it
// must not start a text.) ok is also false if a quote is not closed, or if there is no command.
func splitCommands(s string) (parts []string, ok bool) {
	var part strings.Builder
	flush := func() {
		if p := strings.TrimSpace(part.String()); p != "" {
			parts = append(parts, p)
		}
		part.Reset()
	}
	quote := byte(0)
	for i := 0; i < len(s); i++ {
		ch := s[i]
		switch {
		case quote == '\'':
			if ch == '\'' {
				quote = 0
			}
		case ch == '\\' && i+1 < len(s):
			part.WriteByte(ch)
			i++
			ch = s[i]
		case ch == '`', ch == '$' && i+1 < len(s) && strings.IndexByte("({['\"", s[i+1]) >= 0:
			return nil, false
		case quote == '"':
			if ch == '"' {
				quote = 0
			}
		case ch == '\'' || ch == '"':
			quote = ch
		case strings.IndexByte("<>(){}#", ch) >= 0:
			return nil, false
		case strings.IndexByte(";&|\n\r", ch) >= 0:
			flush()
			continue
		}
		part.WriteByte(ch)
	}
	flush()
	return parts, quote == 0 && len(parts) > 0
}

// compoundPattern matches shell syntax that combines several commands, redirects input or output, or substitutes text in a
// command.
var compoundPattern = regexp.MustCompile("[;&|<>`\n\r]|\\$\\(|\\$\\{")

// groupPattern also matches the brackets of groups and functions.
var groupPattern = regexp.MustCompile("[;&|<>`\n\r(){}]")

// leadPattern matches what may precede a command in shell syntax: a reserved word or an assignment of a variable.
var leadPattern = regexp.MustCompile(`^(?:!|if|then|elif|else|do|while|until|time(?:\s+-p)?|[A-Za-z_]\w*\+?=(?:'[^']*'|"[^"]*"|\\.|[^\s'"\\])*)\s+`)

// matchesPart reports whether the pattern matches the command or a part of it. It does not consider quotes, so it also finds parts
// that are only text: a rule that denies should match too much rather than too little.
func matchesPart(re *regexp.Regexp, command string) bool {
	if re.MatchString(command) {
		return true
	}
	for _, part := range slices.Concat([]string{command}, compoundPattern.Split(command, -1), groupPattern.Split(command, -1)) {
		for lead := ""; ; {
			part = strings.TrimSpace(strings.TrimPrefix(part, lead))
			if re.MatchString(part) {
				return true
			}
			if lead = leadPattern.FindString(part); lead == "" {
				break
			}
		}
	}
	return false
}

// globPattern returns the pattern of a rule as a regular expression.
func globPattern(pattern string) *regexp.Regexp {
	if before, ok := strings.CutSuffix(pattern, ":*"); ok { // Claude Code's syntax for a prefix
		pattern = before + "*"
	}
	end := "$"
	if before, ok := strings.CutSuffix(pattern, " *"); ok { // as in Claude Code, the pattern also matches the command without arguments
		pattern, end = before, "( .*)?$"
	}
	parts := strings.Split(pattern, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("(?s)^" + strings.Join(parts, ".*") + end)
}
