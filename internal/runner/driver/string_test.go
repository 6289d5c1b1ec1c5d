package driver

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "", "é\n": "é\n", "a\x00b": "a\uFFFDb", "\xff\xfe": "\uFFFD\uFFFD", "\xe2\x82": "\uFFFD\uFFFD", "\xe2\x82\xac": "€",
	} {
		require.Equal(t, want, CleanText([]byte(in)))
	}
}
