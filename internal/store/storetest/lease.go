package storetest

import (
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/waittest"
)

var leaseCases = []testCase{
	{"leases are listed by the beginning of their keys", func(t *testing.T, s fleet.Store) {
		list := func() map[string]string {
			owners, err := s.Leases(t.Context(), "server/")
			require.NoError(t, err)
			return owners
		}
		require.Empty(t, list())
		for i, key := range []string{"server/1", "server/2", "SERVER/1", "a/server/4", "server"} {
			require.Positive(t, takeLease(t, s, key, id("o", i), time.Hour))
		}
		require.Equal(t, map[string]string{"server/1": id("o", 0), "server/2": id("o", 1)}, list())
		require.Positive(t, takeLease(t, s, "server/3", "o", 0))
		require.Len(t, list(), 2, "an expired lease must not be listed")
		require.NoError(t, s.ReleaseLease(t.Context(), "server/2", id("o", 1)))
		require.Equal(t, map[string]string{"server/1": id("o", 0)}, list())
	}},

	{"a lease expires", func(t *testing.T, s fleet.Store) {
		require.Positive(t, takeLease(t, s, "k", "one", 50*time.Millisecond))
		waittest.Until(t, "a lease that expires sends no signal", func() bool { return takeLease(t, s, "k", "two", time.Hour) > 0 })
	}},

	{"one of many concurrent callers gets the lease", func(t *testing.T, s fleet.Store) {
		for round := range 5 {
			var owners atomic.Int32
			require.Empty(t, runConcurrently(40, func(i int) error {
				epoch, err := s.AcquireLease(t.Context(), id("k", round), id("owner", i), time.Hour)
				if epoch > 0 {
					owners.Add(1)
				}
				return err
			}))
			require.Equal(t, int32(1), owners.Load())
		}
	}},

	{"many leases of an owner are renewed together, and none becomes shorter", func(t *testing.T, s fleet.Store) {
		want := map[string]int64{}
		for i := range 20 {
			want[id("k", i)] = takeLease(t, s, id("k", i), "one", 0)
		}
		takeLease(t, s, "of two", "two", 0)
		long := takeLease(t, s, "long", "one", time.Hour)
		require.Positive(t, takeLease(t, s, id("k", 0), "two", time.Hour), "another owner must get an expired lease")
		delete(want, id("k", 0))
		want["long"] = long
		left := takeLease(t, s, "left", "one", 0)
		keys := append(slices.Collect(maps.Keys(want)), id("k", 0), "of two", "of nobody")
		require.Equal(t, want, renewLeases(t, s, "one", time.Hour, keys...))
		require.Zero(t, takeLease(t, s, id("k", 1), "two", time.Hour))
		require.Greater(t, takeLease(t, s, "left", "two", time.Hour), left, "only the leases on the given keys must be renewed")
		require.Positive(t, takeLease(t, s, "of two", "three", time.Hour), "the leases of another owner must not be renewed")
		require.Equal(t, want, renewLeases(t, s, "one", 0, keys...))
		require.Zero(t, takeLease(t, s, "long", "two", time.Hour))
		require.Empty(t, renewLeases(t, s, "nobody", time.Hour, keys...))
		require.Empty(t, renewLeases(t, s, "one", time.Hour))
	}},

	{"an owner that lost its lease cannot write", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		write := func(l fleet.Lease, attempts int) error {
			return s.Update(fleet.WithLease(t.Context(), l), func(tx fleet.Tx) error {
				a, err := tx.Agent(a.UID)
				if err != nil {
					return err
				}
				a.Attempts = attempts
				require.NoError(t, tx.Append(newEvent(fleet.EventAgentChanged, a, "")))
				return tx.Update(a)
			})
		}
		attempts := func() int {
			return getAgent(t, s, a.UID).Attempts
		}
		paused := fleet.Lease{Key: "k", Epoch: takeLease(t, s, "k", "one", 0)}
		require.NoError(t, write(paused, 10), "the owner of an expired lease must be able to write until another owner takes it")
		taken := fleet.Lease{Key: "k", Epoch: takeLease(t, s, "k", "two", time.Hour)}
		require.ErrorIs(t, write(paused, 11), fleet.ErrLeaseLost)
		require.Equal(t, 10, attempts())
		require.NoError(t, write(taken, 12))
		require.NoError(t, s.ReleaseLease(t.Context(), "k", "two"))
		require.ErrorIs(t, write(taken, 13), fleet.ErrLeaseLost, "a write with a released lease must fail")
		again := takeLease(t, s, "k", "one", time.Hour)
		require.ErrorIs(t, write(paused, 14), fleet.ErrLeaseLost, "a write with an old epoch must fail, even if the owner has the lease again")
		require.NoError(t, write(fleet.Lease{Key: "k", Epoch: again}, 15))
		require.ErrorIs(t, write(fleet.Lease{Key: "other", Epoch: again}, 16), fleet.ErrLeaseLost)
		require.Equal(t, 15, attempts())
		require.Len(t, listEvents(t, s, fleet.EventFilter{}, 0, 10), 3)
	}},

	{"without the lease not even an event is written", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		lost := fleet.Lease{Key: "k", Epoch: takeLease(t, s, "k", "one", time.Hour) + 1}
		require.ErrorIs(t, s.Update(fleet.WithLease(t.Context(), lost), func(tx fleet.Tx) error {
			return tx.Append(newEvent(fleet.EventAgentChanged, a, ""))
		}), fleet.ErrLeaseLost)
		require.Empty(t, listEvents(t, s, fleet.EventFilter{}, 0, 10))
	}},

	{"a lease that is taken while its owner writes is taken before or after the write", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		l := fleet.Lease{Key: "k", Epoch: takeLease(t, s, "k", "one", 0)}
		taken := make(chan error, 1)
		takenFirst := false
		err := s.Update(fleet.WithLease(t.Context(), l), func(tx fleet.Tx) error {
			a, err := tx.Agent(a.UID)
			require.NoError(t, err)
			go func() {
				epoch, err := s.AcquireLease(t.Context(), "k", "two", time.Hour)
				if epoch == 0 {
					err = errTest
				}
				taken <- err
			}()
			select {
			case err := <-taken:
				require.NoError(t, err)
				takenFirst = true
			case <-time.After(50 * time.Millisecond): // the other owner waits, or is slow and may still be the first
			}
			a.Attempts = 7
			return tx.Update(a)
		})
		attempts := getAgent(t, s, a.UID).Attempts
		if !takenFirst {
			require.NoError(t, <-taken)
		}
		if takenFirst || err != nil {
			require.ErrorIs(t, err, fleet.ErrLeaseLost)
			require.NotEqual(t, 7, attempts)
			return
		}
		require.Equal(t, 7, attempts)
	}},
}

func takeLease(t tb, s fleet.Store, key, owner string, ttl time.Duration) (epoch int64) {
	t.Helper()
	epoch, err := s.AcquireLease(t.Context(), key, owner, ttl)
	require.NoError(t, err)
	return epoch
}

func renewLeases(t tb, s fleet.Store, owner string, ttl time.Duration, keys ...string) map[string]int64 {
	t.Helper()
	epochs, err := s.RenewLeases(t.Context(), owner, ttl, keys)
	require.NoError(t, err)
	return epochs
}
