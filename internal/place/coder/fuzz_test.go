package coder

import (
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// FuzzLogLines checks that logLines removes all control characters except tabs, whatever a build prints.
func FuzzLogLines(f *testing.F) {
	f.Add("Cloning", "\x1b[31mred\x1b[0m\r\nnext\x1b]0;title\x07\x00")
	f.Add("", "\x1b[\x9b31m\u202e\n\n")
	f.Fuzz(func(t *testing.T, source, text string) {
		if strings.ContainsFunc(source, unicode.IsControl) {
			t.Skip()
		}
		for _, line := range logLines(source, text) {
			require.False(t, strings.ContainsFunc(line, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }), "%q", line)
		}
	})
}
