package main

import (
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
)

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

// description returns a field's comment without leading words such as "Required.", which do not describe the field's value.
func description(c protogen.CommentSet) string {
	text := comment(c)
	for _, word := range []string{"Required. ", "Optional. ", "Output only. ", "Immutable. "} {
		text = strings.TrimPrefix(text, word)
	}
	return text
}
