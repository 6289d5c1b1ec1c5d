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
		kept := escape(s)
		require.True(t, utf8.ValidString(kept))
		require.False(t, strings.Contains(kept, "\x00"))
		require.Equal(t, s, unescape(kept))
	})
}
