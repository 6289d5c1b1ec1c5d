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

// parseCommand parses a bash command. ok is false if the syntax is wrong or the command is too long.
func parseCommand(command string) (f *syntax.File, ok bool) {
	if len(command) > maxParsed {
		return nil, false
	}
	f, err := syntax.NewParser(syntax.KeepComments(true)).Parse(strings.NewReader(command), "")
	return f, err == nil
}

// splitCommands splits a shell command at the operators that combine commands. ok is false if the command has other syntax that
// can hide a command or name a file: substitutions, redirections, groups, reserved words and comments. It is also false if the command
// cannot be parsed or is empty.
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

// launchers are programs and builtins that run another command, which they get as arguments, as a text, or as input.
var launchers = map[string]bool{
	"!":    true, // bash makes it a word after an assignment, other shells may not
	"bash": true, "builtin": true, "busybox": true, "chroot": true, "command": true, "dash": true, "doas": true, "docker": true, "env": true, "eval": true,
	"exec": true, "find": true, "flock": true, "ionice": true, "kubectl": true, "ksh": true, "nice": true, "nohup": true, "parallel": true, "pkexec": true,
	"podman": true, "runuser": true, "setsid": true, "sh": true, "ssh": true, "stdbuf": true, "su": true, "sudo": true, "time": true, "timeout": true,
	"trap": true, "unshare": true, "watch": true, "xargs": true, "zsh": true,
}

// Limits of what mayRun looks at if a command has a launcher.
const (
	maxTexts    = 1000 // words and here-documents of the command
	maxLaunched = 50   // words of a call at which another command may begin
	maxNesting  = 5    // levels of commands within words and here-documents of other commands
)

// mayRun reports whether the shell command may run a command that the pattern matches. If it has a launcher, mayRun also considers each of
// its words and here-documents as a command, and it considers the words of a command that cannot be parsed, because a rule that denies
// should match too much rather than too little. It cannot know commands that come from variables or files. depth is the number of
// commands that contain this command in a word or here-document; see maxNesting.
func mayRun(pattern *regexp.Regexp, command string, depth int) bool {
	if pattern.MatchString(command) {
		return true
	}
	f, ok := parseCommand(command)
	if !ok {
		return slices.ContainsFunc(syntaxPattern.Split(command, -1), func(part string) bool { return matchesSuffix(pattern, strings.Fields(part)) })
	}
	found, launches := false, false
	var texts []string
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			found = found || n.Cmd != nil && pattern.MatchString(source(command, n.Cmd))
		case *syntax.CallExpr:
			matches, launcher := matchesCall(pattern, command, n)
			found, launches = found || matches, launches || launcher
		case *syntax.Word:
			if len(texts) < maxTexts {
				texts = append(texts, unquote(command, n.Parts))
			}
		}
		return !found
	})
	return found || launches && depth < maxNesting && slices.ContainsFunc(texts, func(text string) bool { return mayRun(pattern, text, depth+1) })
}

// syntaxPattern matches characters that have a meaning for the shell.
var syntaxPattern = regexp.MustCompile("[;&|<>`\n\r(){}'\"\\\\]")

// matchesCall reports whether the call, which is a part of the command, may run a command that the pattern matches, and whether it calls a
// launcher.
func matchesCall(pattern *regexp.Regexp, command string, c *syntax.CallExpr) (matches, launcher bool) {
	if len(c.Args) == 0 {
		return false, false
	}
	var words []string
	for _, w := range c.Args {
		words = append(words, unquote(command, w.Parts))
	}
	if strings.ContainsAny(words[0], "{,}") { // bash makes several words of it
		words = append(strings.FieldsFunc(words[0], func(r rune) bool { return strings.ContainsRune("{,}", r) }), words[1:]...)
		return matchesSuffix(pattern, words), false
	}
	base := filepath.Base(words[0])
	launcher = launchers[base]
	matches = pattern.MatchString(strings.Join(words, " ")) || pattern.MatchString(strings.Join(append([]string{base}, words[1:]...), " "))
	return matches || launcher && matchesSuffix(pattern, words[1:]), launcher
}

// matchesSuffix reports whether the pattern matches all the words, or the words without some at the beginning. It leaves out fewer than
// maxLaunched words.
func matchesSuffix(pattern *regexp.Regexp, words []string) bool {
	for i := range min(len(words), maxLaunched) {
		if pattern.MatchString(strings.Join(words[i:], " ")) {
			return true
		}
	}
	return false
}

// unquote returns the text of the parts of a word as a program gets it. It returns expansions as they are in the command.
func unquote(command string, parts []syntax.WordPart) string {
	var b strings.Builder
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			b.WriteString(escapePattern.ReplaceAllString(p.Value, "$1"))
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			b.WriteString(unquote(command, p.Parts))
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
