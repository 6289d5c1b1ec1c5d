package main

import (
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
)

// commentText returns the leading comment as text, one line for each paragraph.
func commentText(c protogen.CommentSet) string {
	var paragraphs []string
	for p := range strings.SplitSeq(string(c.Leading), "\n\n") {
		if p = strings.Join(strings.Fields(p), " "); p != "" {
			paragraphs = append(paragraphs, p)
		}
	}
	return strings.Join(paragraphs, "\n")
}

// fieldDescription returns a field's comment without leading words such as "Required.", which do not describe the field's value.
func fieldDescription(c protogen.CommentSet) string {
	text := commentText(c)
	for _, word := range []string{"Required. ", "Optional. ", "Output only. ", "Immutable. "} {
		text = strings.TrimPrefix(text, word)
	}
	return text
}
