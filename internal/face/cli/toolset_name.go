package cli

import (
	"slices"
	"strings"
	"unicode"
)

// nameCommands gives the methods the names of their commands. Inside "fleet sessions", the words agent and session say
// nothing, nor does get before another word; of what is left the verb is enough when no other method begins with it. So
// AgentStart is "lifecycle start", GetAgentSessionInfo "sessions info", ListAgentSessions "sessions list". Methods
// that name what the toolset is about choose first. A method for which nothing short is left keeps its whole name,
// which every method has as an alias.
func (t *toolset) nameCommands() {
	taken := map[string]bool{}
	var rest []*method
	own := func(m *method) bool { return slices.Contains(words(m), singular(t.name)) }
	for _, first := range []bool{true, false} {
		var now []*method
		for _, m := range t.methods {
			if own(m) == first {
				now = append(now, m)
			}
		}
		for _, short := range []func(*method) string{t.verb, t.short} {
			count := map[string]int{}
			for _, m := range now {
				count[short(m)]++
			}
			now = slices.DeleteFunc(now, func(m *method) bool {
				name := short(m)
				if name == "" || count[name] > 1 || taken[name] {
					return false
				}
				m.command, taken[name] = name, true
				return true
			})
		}
		rest = append(rest, now...)
	}
	for _, m := range rest {
		m.command = m.whole()
	}
}

// verb is the first word of short.
func (t *toolset) verb(m *method) string {
	verb, _, _ := strings.Cut(t.short(m), "-")
	return verb
}

// short is the name without the words that the toolset says already.
func (t *toolset) short(m *method) string {
	left := slices.DeleteFunc(words(m), func(w string) bool { return w == "agent" || w == singular(t.name) })
	if len(left) > 1 && left[0] == "get" {
		left = left[1:]
	}
	return strings.Join(left, "-")
}

// whole is the name of the method as a command: "list-agent-sessions".
func (m *method) whole() string { return strings.ReplaceAll(m.tool(), "_", "-") }

// words are the words of the method's name, in the singular.
func words(m *method) []string {
	list := strings.Split(m.tool(), "_")
	for i, w := range list {
		list[i] = singular(w)
	}
	return list
}

// singular makes one of the nouns of the API: agents is agent, capabilities is capability. "status" and "process" are no
// plurals.
func singular(word string) string {
	switch {
	case strings.HasSuffix(word, "ss"), strings.HasSuffix(word, "us"):
		return word
	case strings.HasSuffix(word, "ies"):
		return strings.TrimSuffix(word, "ies") + "y"
	}
	return strings.TrimSuffix(word, "s")
}

// snake writes a name of proto in snake_case: AgentStart is agent_start.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
