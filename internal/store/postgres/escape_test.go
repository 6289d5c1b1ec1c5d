package postgres

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// FuzzEscape checks that unescape reverses escape for any text, and that escape returns text that Postgres accepts.
func FuzzEscape(f *testing.F) {
	for _, s := range []string{"", "plain ü 🚀", "a\x00b", "\xff\xfe", "\U0010FE00", "\U0010FEFF\U0010FFFF", "\xf4\x8f", "\U0010FE00\x00\xf4\x8f\xb8"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		escaped := escape(s)
		require.True(t, utf8.ValidString(escaped))
		require.False(t, strings.Contains(escaped, "\x00"))
		require.Equal(t, s, unescape(escaped))
	})
}
