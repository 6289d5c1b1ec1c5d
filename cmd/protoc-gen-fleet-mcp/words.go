package main

import (
	"strings"
	"unicode"

	"google.golang.org/protobuf/compiler/protogen"
)

// split cuts a Go name into its words: ShowAgentLog into Show, Agent, Log, and GetHTTPLog into Get, HTTP, Log.
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

// snake returns the name of the tool of a method.
func snake(name string) string { return strings.ToLower(strings.Join(split(name), "_")) }

// title returns a name for people.
func title(name string) string {
	words := split(name)
	for i := 1; i < len(words); i++ {
		words[i] = strings.ToLower(words[i])
	}
	return strings.Join(words, " ")
}

// lowerFirst makes a name that is not exported.
func lowerFirst(name string) string { return strings.ToLower(name[:1]) + name[1:] }

// comment returns the leading comment as text: a line for each paragraph.
func comment(c protogen.CommentSet) string {
	var paragraphs []string
	for p := range strings.SplitSeq(string(c.Leading), "\n\n") {
		if p = strings.Join(strings.Fields(p), " "); p != "" {
			paragraphs = append(paragraphs, p)
		}
	}
	return strings.Join(paragraphs, "\n")
}

// description returns the comment of a field without the word for its behaviour, which the schema says by itself.
func description(c protogen.CommentSet) string {
	text := comment(c)
	for _, word := range []string{"Required. ", "Optional. ", "Output only. ", "Immutable. "} {
		text = strings.TrimPrefix(text, word)
	}
	return text
}
