package cagent

import (
	"strings"
	"unicode/utf8"
)

// clean returns s as valid UTF-8 without NUL bytes. Every database accepts such text.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// clip returns s. If s is longer than n bytes, clip returns at most n bytes of it, followed by an ellipsis.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// oneLine returns s in one line, shortened as by clip.
func oneLine(s string, n int) string { return clip(strings.Join(strings.Fields(s), " "), n) }
