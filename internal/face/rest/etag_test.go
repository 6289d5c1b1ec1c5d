package rest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHasTag(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]bool{
		`W/"a1"`: true, `"a1"`: true, `*`: true, ` * `: true, `"x", W/"a1"`: true, "\"x\" ,\t\"a1\"": true,
		``: false, `a1`: false, `"a"`: false, `"a1`: false, `w/"a1"`: false, `"A1"`: false, `"a1""`: false,
	} {
		require.Equal(t, want, hasTag([]string{header}, `W/"a1"`), header)
	}
	require.True(t, hasTag([]string{`"x"`, `"a1"`}, `W/"a1"`), "the header may be repeated")
	require.False(t, hasTag(nil, `W/"a1"`))
}
