package acp

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxParsed is the size of the longest command that is parsed, in bytes. The parser's stack grows with the depth of a command.
const maxParsed = 64 << 10

// parseCommand parses a command of bash. ok is false if it is not one.
func parseCommand(command string) (f *syntax.File, ok bool) {
	if len(command) > maxParsed {
		return nil, false
	}
	f, err := syntax.NewParser(syntax.KeepComments(true)).Parse(strings.NewReader(command), "")
	return f, err == nil
}

// splitCommands splits a shell command at the operators that combine commands. ok is false if the command has other syntax that
// can hide a command or name a file: substitutions, redirections, groups, reserved words and comments. It is also false if the command
// cannot be parsed, or if there is none.
func splitCommands(command string) (parts []string, ok bool) {
	f, ok := parseCommand(command)
	if !ok {
		return nil, false
	}
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case nil, *syntax.File, *syntax.BinaryCmd, *syntax.Assign, *syntax.Word, *syntax.Lit:
		case *syntax.Stmt:
			ok = ok && !n.Negated && !n.Coprocess && len(n.Redirs) == 0
		case *syntax.CallExpr, *syntax.DeclClause:
			parts = append(parts, source(command, n))
		case *syntax.SglQuoted:
			ok = ok && !n.Dollar
		case *syntax.DblQuoted:
			ok = ok && !n.Dollar
		case *syntax.ParamExp:
			ok = ok && n.Short
		default:
			ok = false
		}
		return ok
	})
	return parts, ok && len(parts) > 0
}

// source returns the text of the node in the command.
func source(command string, n syntax.Node) string {
	return command[n.Pos().Offset():n.End().Offset()]
}

// launchers are programs and builtins that run a command in their arguments, either as words or as a text.
var launchers = map[string]bool{
	"!":    true, // bash makes it a word after an assignment, other shells may not
	"bash": true, "builtin": true, "busybox": true, "chroot": true, "command": true, "dash": true, "doas": true, "env": true, "eval": true, "exec": true,
	"find": true, "flock": true, "ionice": true, "ksh": true, "nice": true, "nohup": true, "parallel": true, "setsid": true, "sh": true, "stdbuf": true,
	"sudo": true, "time": true, "timeout": true, "trap": true, "unshare": true, "watch": true, "xargs": true, "zsh": true,
}

// Limits of what mayRun looks for in the arguments of a launcher.
const (
	maxLaunched = 50 // words at which the command may begin
	maxNested   = 5  // texts within each other
)

// mayRun reports whether the shell command may run a command that the pattern matches. It also considers the arguments of launchers,
// and the words of a command that cannot be parsed, because a rule that denies should match too much rather than too little. It cannot
// know commands that come from variables or files.
func mayRun(pattern *regexp.Regexp, command string, nested int) bool {
	if pattern.MatchString(command) {
		return true
	}
	f, ok := parseCommand(command)
	if !ok {
		return slices.ContainsFunc(syntaxPattern.Split(command, -1), func(part string) bool { return matchesTail(pattern, strings.Fields(part)) })
	}
	found := false
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			found = found || n.Cmd != nil && pattern.MatchString(source(command, n.Cmd))
		case *syntax.CallExpr:
			found = found || matchesCall(pattern, command, n, nested)
		}
		return !found
	})
	return found
}

// syntaxPattern matches characters that have a meaning for the shell.
var syntaxPattern = regexp.MustCompile("[;&|<>`\n\r(){}'\"\\\\]")

// matchesCall reports whether the call, which is a part of the command, may run a command that the pattern matches.
func matchesCall(pattern *regexp.Regexp, command string, c *syntax.CallExpr, nested int) bool {
	if len(c.Args) == 0 {
		return false
	}
	var words []string
	for _, w := range c.Args {
		words = append(words, unquoted(command, w.Parts))
	}
	if strings.ContainsAny(words[0], "{,}") { // bash makes several words of it
		words = append(strings.FieldsFunc(words[0], func(r rune) bool { return strings.ContainsRune("{,}", r) }), words[1:]...)
		return matchesTail(pattern, words)
	}
	base := filepath.Base(words[0])
	if pattern.MatchString(strings.Join(words, " ")) || pattern.MatchString(strings.Join(append([]string{base}, words[1:]...), " ")) {
		return true
	}
	if !launchers[base] {
		return false
	}
	return matchesTail(pattern, words[1:]) || nested < maxNested &&
		slices.ContainsFunc(words[1:min(len(words), maxLaunched)], func(w string) bool { return mayRun(pattern, w, nested+1) })
}

// matchesTail reports whether the pattern matches the words from one of them on.
func matchesTail(pattern *regexp.Regexp, words []string) bool {
	for i := range min(len(words), maxLaunched) {
		if pattern.MatchString(strings.Join(words[i:], " ")) {
			return true
		}
	}
	return false
}

// unquoted returns the text of the parts of a word as a program gets it. It returns expansions as they are in the command.
func unquoted(command string, parts []syntax.WordPart) string {
	var b strings.Builder
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			b.WriteString(escapePattern.ReplaceAllString(p.Value, "$1"))
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			b.WriteString(unquoted(command, p.Parts))
		default:
			b.WriteString(source(command, p))
		}
	}
	return b.String()
}

// escapePattern matches a character with a backslash before it.
var escapePattern = regexp.MustCompile(`(?s)\\(.)`)

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
