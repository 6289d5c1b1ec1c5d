package main

import (
	"strings"
	"unicode"

	"google.golang.org/protobuf/compiler/protogen"
)

// split splits a Go name into words: ShowAgentLog into Show, Agent, Log, and GetHTTPLog into Get, HTTP, Log.
func split(name string) []string {
	var words []string
	runes, begin := []rune(name), 0
	for i := 1; i < len(runes); i++ {
		if unicode.IsUpper(runes[i]) && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			words, begin = append(words, string(runes[begin:i])), i
		}
	}
	return append(words, string(runes[begin:]))
}

// snakeCase converts a method's Go name to the name of its tool: ShowAgentLog becomes show_agent_log.
func snakeCase(name string) string { return strings.ToLower(strings.Join(split(name), "_")) }

// title returns a Go name as words: ShowAgentLog becomes "Show agent log".
func title(name string) string {
	words := split(name)
	for i := 1; i < len(words); i++ {
		words[i] = strings.ToLower(words[i])
	}
	return strings.Join(words, " ")
}

// lowerFirst returns the name with its first letter in lower case, so that Go does not export it.
func lowerFirst(name string) string { return strings.ToLower(name[:1]) + name[1:] }

// comment returns the leading comment as text, one line for each paragraph.
func comment(c protogen.CommentSet) string {
	var paragraphs []string
	for p := range strings.SplitSeq(string(c.Leading), "\n\n") {
		if p = strings.Join(strings.Fields(p), " "); p != "" {
			paragraphs = append(paragraphs, p)
		}
	}
	return strings.Join(paragraphs, "\n")
}

// description returns a field's comment without a leading word such as "Required.", because the schema already says
// that.
func description(c protogen.CommentSet) string {
	text := comment(c)
	for _, word := range []string{"Required. ", "Optional. ", "Output only. ", "Immutable. "} {
		text = strings.TrimPrefix(text, word)
	}
	return text
}
