package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

var secretCases = []testCase{
	{"the first value of each name counts", func(t *testing.T, s fleet.Store) {
		secret := func(name, value string) string {
			stored, err := s.EnsureSecret(t.Context(), name, []byte(value))
			require.NoError(t, err)
			return string(stored)
		}
		require.Equal(t, "a\x00\xff", secret("one", "a\x00\xff"))
		require.Equal(t, "a\x00\xff", secret("one", "b"))
		require.Equal(t, "b", secret("ONE", "b"))
		require.Equal(t, "a\x00\xff", secret("one", "c"))
	}},

	{"concurrent callers get the same value", func(t *testing.T, s fleet.Store) {
		var stored [40][]byte
		require.Empty(t, runConcurrently(len(stored), func(i int) (err error) {
			stored[i], err = s.EnsureSecret(t.Context(), "one", []byte(id("value", i)))
			return err
		}))
		for _, value := range stored {
			require.NotEmpty(t, value)
			require.Equal(t, stored[0], value)
		}
	}},
}
