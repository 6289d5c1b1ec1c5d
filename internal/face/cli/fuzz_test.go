package cli

import (
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// FuzzSanitize checks that the output of an agent cannot control the terminal, however the output is split.
func FuzzSanitize(f *testing.F) {
	f.Add("\x1b]0;title\x07text\x1b[31mred\x1b[0m", 3)
	f.Add("\u202etext\x9b31m\x1b[2J\x1bP\x1b\\", 1)
	f.Fuzz(func(t *testing.T, text string, at int) {
		at = min(max(at, 0), len(text))
		s := &sanitizer{}
		for _, shown := range []string{s.clean(text[:at]) + s.clean(text[at:]), printable(text)} {
			require.Equal(t, -1, strings.IndexFunc(shown, func(r rune) bool {
				return unicode.IsControl(r) && r != '\n' && r != '\t' || isDirectional(r)
			}), "%q", shown)
		}
	})
}
