package app

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/store/sqlite"
)

// TestRunnerKey checks that all servers on a store have the same key, and that servers on another store have another
// key.
func TestRunnerKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key := func(name string) string {
		store, err := sqlite.Open(t.Context(), filepath.Join(dir, name), sqlite.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		k, err := runnerKey(t.Context(), store)
		require.NoError(t, err)
		return string(k)
	}
	one := key("one.db")
	require.Equal(t, one, key("one.db"))
	require.NotEqual(t, one, key("two.db"))
}
