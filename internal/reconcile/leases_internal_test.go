package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// leaseStore implements the methods of a store that leases use.
type leaseStore struct {
	fleet.Store
	epochs atomic.Pointer[map[string]int64] // of the leases that AcquireLease and RenewLeases grant, by key
	renews atomic.Int64                     // number of calls of RenewLeases
	keys   atomic.Pointer[[]string]         // of the last call of RenewLeases
	hangs  atomic.Bool                      // RenewLeases waits until its context ends, then fails
}

func (s *leaseStore) AcquireLease(_ context.Context, key, _ string, _ time.Duration) (int64, error) {
	return (*s.epochs.Load())[key], nil
}

func (s *leaseStore) RenewLeases(ctx context.Context, _ string, _ time.Duration, keys []string) (map[string]int64, error) {
	s.renews.Add(1)
	s.keys.Store(&keys)
	if s.hangs.Load() {
		<-ctx.Done()
		return nil, errors.New("it does not answer")
	}
	return *s.epochs.Load(), nil
}

func (s *leaseStore) ReleaseLease(context.Context, string, string) error { return nil }

func newLeaseStore(epochs map[string]int64) *leaseStore {
	s := &leaseStore{}
	s.epochs.Store(&epochs)
	return s
}

const ttl = 9 * time.Second

// newKeptLeases returns leases that are renewed until the test ends.
func newKeptLeases(t *testing.T, s *leaseStore) *leases {
	l := newLeases(s, "me", ttl, slog.New(slog.DiscardHandler), func(error) {})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.keep(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return l
}

// hold takes the lease and returns the context of its holder. The lease is released when the test ends.
func hold(t *testing.T, l *leases, key string) context.Context {
	t.Helper()
	leaseCtx, release, ok, err := l.hold(t.Context(), key)
	require.NoError(t, err)
	require.True(t, ok)
	t.Cleanup(release)
	return leaseCtx
}

func TestAllLeasesAreRenewedInOneStatement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newLeaseStore(map[string]int64{"a": 1, "b": 2, "c": 3})
		l := newKeptLeases(t, s)
		a, b, c := hold(t, l, "a"), hold(t, l, "b"), hold(t, l, "c")
		lease, ok := fleet.LeaseFrom(b)
		require.True(t, ok)
		require.Equal(t, fleet.Lease{Key: "b", Epoch: 2}, lease)
		time.Sleep(10*ttl + time.Second)
		synctest.Wait()
		require.Equal(t, int64(30), s.renews.Load(), "one renewal for all leases, three times in the lifetime of a lease")
		require.NoError(t, errors.Join(a.Err(), b.Err(), c.Err()))
		require.ElementsMatch(t, []string{"a", "b", "c"}, *s.keys.Load(), "leases that nobody holds must expire")

		s.epochs.Store(&map[string]int64{"a": 1, "b": 20})
		time.Sleep(ttl / 3)
		synctest.Wait()
		require.NoError(t, a.Err())
		require.Error(t, b.Err(), "the epoch has changed, so another owner has had the lease")
		require.Error(t, c.Err(), "the lease was not renewed, so another owner has it")
	})
}

func TestLeasesEndWhenTheStoreDoesNotAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newLeaseStore(map[string]int64{"a": 1})
		l := newKeptLeases(t, s)
		a := hold(t, l, "a")
		s.hangs.Store(true)
		time.Sleep(ttl - time.Millisecond)
		synctest.Wait()
		require.NoError(t, a.Err())
		time.Sleep(time.Millisecond)
		synctest.Wait()
		require.Error(t, a.Err())
	})
}

func TestLeaseOfAnotherOwnerIsNotHeld(t *testing.T) {
	t.Parallel()
	l := newLeases(newLeaseStore(nil), "me", ttl, slog.New(slog.DiscardHandler), func(error) {})
	_, _, ok, err := l.hold(t.Context(), "a")
	require.NoError(t, err)
	require.False(t, ok)
}
