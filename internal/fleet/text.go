package fleet

import (
	"strings"
	"unicode/utf8"
)

// Shorten returns s if it has at most n characters. Otherwise it returns the beginning of s and an ellipsis, together at
// most n characters.
func Shorten(s string, n int) string {
	r := []rune(s[:min(len(s), (n+1)*utf8.UTFMax)])
	if len(r) <= n {
		return s
	}
	return strings.TrimSpace(string(r[:n-1])) + "…"
}

// JoinNames joins names for an error text: "a, b", or "none" for an empty list.
func JoinNames(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// MaxText is the maximum size of a spec, a description or a message, in bytes.
const MaxText = 1 << 20

// IsBlank reports whether the text shows nothing: it is empty, or has only white space and invisible characters.
func IsBlank(s string) bool {
	for _, r := range s {
		switch r {
		case ' ', '\t', '\n', '\r', '\v', '\f', '\u00a0', '\u200b', '\ufeff', 0:
		default:
			return false
		}
	}
	return true
}
