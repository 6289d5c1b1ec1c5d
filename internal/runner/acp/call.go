package acp

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// call is the description of a tool call in an update or in a request for permission.
type call struct {
	ID        string          `json:"toolCallId"`
	Title     string          `json:"title"`
	Kind      string          `json:"kind"`
	RawInput  json.RawMessage `json:"rawInput"`
	Locations []struct {
		Path string `json:"path"`
	} `json:"locations"`
	Content json.RawMessage `json:"content"`
	Meta    struct {
		Claude struct {
			Tool   string `json:"toolName"`
			Parent string `json:"parentToolUseId"` // the call whose subagent made this one
		} `json:"claudeCode"`
	} `json:"_meta"`
}

// fillFrom fills empty fields of c with the fields of o, an earlier report of the same call.
func (c *call) fillFrom(o call) {
	c.Title, c.Kind = cmp.Or(c.Title, o.Title), cmp.Or(c.Kind, o.Kind)
	if isEmptyInput(c.RawInput) {
		c.RawInput = o.RawInput
	}
	if len(c.Locations) == 0 {
		c.Locations = o.Locations
	}
	if len(editsIn(c.Content)) == 0 {
		c.Content = o.Content
	}
	if c.Meta.Claude.Tool == "" {
		c.Meta = o.Meta
	}
}

func isEmptyInput(input json.RawMessage) bool {
	s := strings.TrimSpace(string(input))
	return s == "" || s == "null" || s == "{}"
}

// toolKinds maps names of tools that rules may use to the protocol's kinds of tools.
var toolKinds = map[string]string{
	"bash": "execute", "shell": "execute", "write": "edit", "multiedit": "edit", "notebookedit": "edit",
	"grep": "search", "glob": "search", "ls": "search", "webfetch": "fetch",
}

// kindOf returns the protocol's kind for a name in a rule, which is the name of a tool or of a kind. It returns an unknown name in
// lower case.
func kindOf(name string) string {
	name = strings.ToLower(strings.TrimSpace(name))
	return cmp.Or(toolKinds[name], name)
}

// parseRule splits a rule into the name, and the pattern if it has one. A pattern need not be closed, so that a mistake in a rule
// does not make it match more.
func parseRule(rule string) (name, pattern string, hasPattern bool) {
	name, pattern, hasPattern = strings.Cut(rule, "(")
	return name, strings.TrimSuffix(pattern, ")"), hasPattern
}

// withTitleCommand returns the call with its title as its command, if it is a command and its input does not contain the
// command. Only rules that deny or ask about calls are checked against the title, because a program can write anything in it.
func (c call) withTitleCommand() call {
	if c.Kind == "execute" && len(c.subjects()) == 0 {
		c.RawInput, _ = json.Marshal(map[string]string{"command": c.Title}) // strings can always be encoded
	}
	return c
}

// isWithin reports whether all files of the call are in the directory, with symbolic links resolved. It returns false if the
// call names no file.
func (c call) isWithin(dir string) bool {
	realDir, ok := resolveLinks(dir)
	paths := append(c.subjects(), c.changedFiles()...)
	for _, l := range c.Locations {
		paths = append(paths, l.Path)
	}
	for _, path := range paths {
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		target, known := resolveLinks(filepath.Clean(path))
		if rel, err := filepath.Rel(realDir, target); !known || err != nil || !filepath.IsLocal(rel) {
			return false
		}
	}
	return ok && len(paths) > 0
}

// changedFiles returns the files that the call changes, according to its content.
func (c call) changedFiles() (paths []string) {
	for _, e := range editsIn(c.Content) {
		paths = append(paths, e.Path)
	}
	return paths
}

// What a rule must match: a part of the call is enough for a rule that denies or asks, but not for a rule that allows.
const (
	anyPart   = false
	wholeCall = true
)

// matchingRule returns the first rule that matches the call, or an empty string if no rule matches. With anyPart, it is
// enough that the pattern of the rule matches one part of a compound command. With wholeCall, the pattern must match the whole
// command, or each of its parts. Then several rules can also match the parts together; matchingRule returns them all.
func (c call) matchingRule(rules []string, whole bool) string {
	if whole && c.Kind == "execute" {
		if partRules := c.matchingPartRules(rules); partRules != "" {
			return partRules
		}
	}
	for _, rule := range rules {
		name, pattern, hasPattern := parseRule(rule)
		if c.hasName(name, whole) && (!hasPattern || pattern == "*" || c.matchesPattern(pattern, whole)) {
			return rule
		}
	}
	return ""
}

// matchingPartRules returns the rules whose patterns match the parts of the commands, as one text. It returns an empty string if a part
// matches no pattern, or if the call has no command.
func (c call) matchingPartRules(rules []string) string {
	var matched []string
	for _, s := range c.subjects() {
		parts, ok := splitCommands(s)
		if !ok {
			return ""
		}
		for _, part := range parts {
			i := slices.IndexFunc(rules, func(rule string) bool {
				name, pattern, hasPattern := parseRule(rule)
				return hasPattern && c.hasName(name, wholeCall) && globPattern(pattern).MatchString(part)
			})
			if i < 0 {
				return ""
			}
			if !slices.Contains(matched, rules[i]) {
				matched = append(matched, rules[i])
			}
		}
	}
	return strings.Join(matched, " and ")
}

// These match the name of a tool in the title of a call, after the name of its MCP server.
var (
	codexToolPattern    = regexp.MustCompile(`^[\w-]+$`)
	openCodeToolPattern = regexp.MustCompile(`^[\w.-]+$`)
)

// hasName reports whether a rule with the name is about the call: the name of its tool, of its kind, or of its MCP server. With
// wholeCall, the rule may allow the call. Then a title counts only if it is nothing but the name of a tool, and if the call has no
// command and no other name, because the title of a command is any text that the agent writes.
func (c call) hasName(name string, whole bool) bool {
	name = strings.ToLower(strings.TrimSpace(name))
	if name == "" {
		return false
	}
	tool, title := strings.ToLower(c.Meta.Claude.Tool), strings.ToLower(c.Title)
	if whole && (tool != "" || c.Kind == "execute" && len(c.subjects()) > 0) {
		title = tool
	}
	if server, ok := strings.CutPrefix(name, "mcp__"); ok {
		server, wantTool, _ := strings.Cut(server, "__")
		if toolTitle, ok := strings.CutPrefix(title, "mcp."+server+"."); ok && (!whole || codexToolPattern.MatchString(toolTitle)) { // the name that Codex uses
			return wantTool == "" || toolTitle == wantTool
		}
		if toolTitle, ok := strings.CutPrefix(title, server+"_"); ok { // the name that OpenCode uses
			oneWord := openCodeToolPattern.MatchString(toolTitle) || !whole && !strings.ContainsAny(title, " \t\n")
			if wantTool == "" && oneWord || wantTool != "" && toolTitle == wantTool {
				return true
			}
		}
		return strings.HasPrefix(tool+"__", name+"__")
	}
	if tool != "" && name == tool || name == title {
		return true
	}
	return kindOf(name) == c.Kind && c.Kind != "other"
}

// matchesPattern reports whether the pattern matches the call. With wholeCall, it must match each subject, and a command never
// matches: see matchingPartRules. With anyPart, it must match one subject, or a part of one.
func (c call) matchesPattern(pattern string, whole bool) bool {
	re := globPattern(pattern)
	subjects := c.subjects()
	for _, s := range subjects {
		if filepath.IsAbs(s) && c.Kind != "execute" { // so that .. cannot lead out of the pattern's directory
			s = filepath.Clean(s)
		}
		switch {
		case !whole:
			if mayRun(re, s, 0) {
				return true
			}
		case c.Kind == "execute":
			return false
		case !re.MatchString(s):
			return false
		}
	}
	return whole && len(subjects) > 0
}

// subjects returns the texts against which patterns are matched: the command, path, URL or search pattern in the input of the
// call or, if the input has none, the changed files.
func (c call) subjects() (all []string) {
	var input map[string]json.RawMessage
	if json.Unmarshal(c.RawInput, &input) != nil {
		return c.changedFiles()
	}
	for _, key := range []string{"command", "cmd", "file_path", "filePath", "filepath", "path", "url", "pattern"} {
		var s string
		var words []string
		switch {
		case json.Unmarshal(input[key], &s) == nil && s != "":
			all = append(all, s)
		case json.Unmarshal(input[key], &words) == nil && len(words) > 0:
			all = commandSubjects(words)
		}
		if len(all) > 0 {
			return all // the keys are in order of importance, and only the first one with a value counts
		}
	}
	return c.changedFiles()
}

// shellPattern matches the shells whose calls are judged by their scripts alone.
var shellPattern = regexp.MustCompile(`^(/bin/|/usr/bin/|/usr/local/bin/)?(ba|da|z|k)?sh$`)

// commandSubjects returns the subjects of a command that is given as words. For a shell with a script, that is the script. For another
// program that looks like a shell, it is the command and the script.
func commandSubjects(words []string) []string {
	command := strings.Join(words, " ")
	switch {
	case len(words) != 3 || !strings.HasPrefix(words[1], "-") || !strings.HasSuffix(words[1], "c"):
		return []string{command}
	case shellPattern.MatchString(words[0]):
		return words[2:]
	}
	return []string{command, words[2]}
}
