package cagent

import (
	"strings"
	"unicode/utf8"
)

// clean returns s as valid UTF-8 without NUL bytes, which every database accepts.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// clip shortens s to at most n bytes, with an ellipsis.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// oneLine returns s on one line of at most n bytes.
func oneLine(s string, n int) string { return clip(strings.Join(strings.Fields(s), " "), n) }
