package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

var noteCases = []testCase{
	{"the last value of each key counts", func(t *testing.T, s fleet.Store) {
		hours := func(key string) (int, bool) {
			ago, ok, err := s.LastDone(t.Context(), key)
			require.NoError(t, err)
			return int(ago / time.Hour), ok
		}
		requireHours := func(key string, want int) {
			n, ok := hours(key)
			require.True(t, ok)
			require.Equal(t, want, n)
		}
		_, ok := hours("poll")
		require.False(t, ok)
		require.NoError(t, s.NoteDone(t.Context(), "poll", 5*time.Hour))
		require.NoError(t, s.NoteDone(t.Context(), "poll", 3*time.Hour))
		require.NoError(t, s.NoteDone(t.Context(), "POLL", 24*400*time.Hour))
		requireHours("poll", 3)
		requireHours("POLL", 24*400)
		require.NoError(t, s.NoteDone(t.Context(), "poll", 0))
		requireHours("poll", 0)
		_, ok = hours("")
		require.False(t, ok)
	}},

	{"subscribers are not notified", func(t *testing.T, s fleet.Store) {
		signal, cancel := s.Subscribe()
		defer cancel()
		for len(signal) > 0 {
			<-signal
		}
		require.NoError(t, s.NoteDone(t.Context(), "poll", 0))
		require.Empty(t, signal)
	}},
}
