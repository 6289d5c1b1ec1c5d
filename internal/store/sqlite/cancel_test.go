package sqlite_test

import (
	"context"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/store/sqlite"
)

// TestCancelledTransactions cancels transactions at many different moments, also while they begin. It checks that no
// connection is left inside a transaction.
func TestCancelledTransactions(t *testing.T) {
	t.Parallel()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "fleet.db"), sqlite.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	for i := range 3000 {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for range i % 100 {
				runtime.Gosched()
			}
			cancel()
		}()
		_ = s.Update(ctx, func(fleet.Tx) error { return nil })
		_ = s.View(ctx, func(fleet.ReadTx) error { return nil })
		require.NoError(t, s.Update(t.Context(), func(fleet.Tx) error { return nil }))
		for range max(4, runtime.GOMAXPROCS(0)) { // once for each connection for views
			require.NoError(t, s.View(t.Context(), func(fleet.ReadTx) error { return nil }))
		}
	}
}
