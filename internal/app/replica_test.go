package app

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/store/postgres/pgtest"
)

// TestNameOfAServer starts servers of one name on one store: one that has other data is refused, or ends if it was away for so long
// that the other has taken the name.
func TestNameOfAServer(t *testing.T) {
	t.Parallel()
	url, data := pgtest.URL(t), t.TempDir()
	open := func(dir string) (*App, error) {
		cfg := DefaultConfig()
		cfg.Store, cfg.Replica, cfg.Data, cfg.Places = url, "twin", dir, []string{fakePlace}
		return Open(t.Context(), cfg, Options{})
	}
	first, err := open(data)
	require.NoError(t, err)
	taken, err := first.shareOnce(t.Context())
	require.NoError(t, err)
	require.False(t, taken)
	_, err = open(t.TempDir())
	require.ErrorContains(t, err, "set replica to a name of its own")
	require.NoError(t, first.Close())
	again, err := open(data)
	require.NoError(t, err, "the same server")
	defer func() { require.NoError(t, again.Close()) }()

	require.NoError(t, again.store.Release(t.Context(), serverLease+"twin", again.machine)) // as if its time were over
	second, err := open(t.TempDir())
	require.NoError(t, err)
	defer func() { require.NoError(t, second.Close()) }()
	taken, err = again.shareOnce(t.Context())
	require.NoError(t, err)
	require.True(t, taken)
	ended := make(chan error, 1)
	defer again.shareLimits(func(err error) { ended <- err })()
	select {
	case err := <-ended:
		require.ErrorContains(t, err, "this one ends")
	case <-time.After(time.Minute):
		t.Fatal("the server goes on")
	}
	taken, err = second.shareOnce(t.Context())
	require.NoError(t, err)
	require.False(t, taken)
}
