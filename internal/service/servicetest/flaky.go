package servicetest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/state"
)

// FlakyStore is a store whose calls a test can make fail or wait. Calls of methods that FlakyStore only embeds always work.
type FlakyStore struct {
	fleet.Store
	FailEvery atomic.Int64 // if it is n, every n-th of the calls that can fail does; if it is 0, none
	calls     atomic.Int64 // number of calls that could fail so far

	mu        sync.Mutex
	onRelease func(key string) (after func())
	onView    func(context.Context)
}

// ErrFlaky is the error that failing calls return.
var ErrFlaky = errors.New("the disk is full")

// NewFlaky starts a fleet like New, over a store that works until FailEvery is set.
func NewFlaky(t testing.TB, with func(*state.Config)) (*Harness, *FlakyStore) {
	t.Helper()
	var flaky *FlakyStore
	h := NewOver(t, fake.Config{}, with, func(s fleet.Store) fleet.Store {
		flaky = &FlakyStore{Store: s}
		return flaky
	})
	return h, flaky
}

// OnRelease sets a function that is called before a lease is released. The function that it returns is called
// afterwards.
func (s *FlakyStore) OnRelease(f func(key string) (after func())) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onRelease = f
}

// OnView sets a function that is called before each View.
func (s *FlakyStore) OnView(f func(context.Context)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onView = f
}

// maybeFail counts a call that can fail, and returns ErrFlaky if the call must fail.
func (s *FlakyStore) maybeFail() error {
	if n := s.FailEvery.Load(); n > 0 && s.calls.Add(1)%n == 0 {
		return ErrFlaky
	}
	return nil
}

// Update calls the Update of the store, see fleet.Store. A failing call fails before or after fn.
func (s *FlakyStore) Update(ctx context.Context, fn func(fleet.Tx) error) error {
	return s.Store.Update(ctx, func(tx fleet.Tx) error { // half of the failures come after fn, so that its changes are rolled back
		if s.calls.Load()%2 == 0 {
			if err := s.maybeFail(); err != nil {
				return err
			}
			return fn(tx)
		}
		if err := fn(tx); err != nil {
			return err
		}
		return s.maybeFail()
	})
}

// View calls the hook of OnView and the View of the store, see fleet.Store.
func (s *FlakyStore) View(ctx context.Context, fn func(fleet.ReadTx) error) error {
	s.mu.Lock()
	hook := s.onView
	s.mu.Unlock()
	if hook != nil {
		hook(ctx)
	}
	if err := s.maybeFail(); err != nil {
		return err
	}
	return s.Store.View(ctx, fn)
}

// LastSeq returns the Seq of the store's newest event, see fleet.Store.
func (s *FlakyStore) LastSeq(ctx context.Context) (int64, error) {
	if err := s.maybeFail(); err != nil {
		return 0, err
	}
	return s.Store.LastSeq(ctx)
}

// AcquireLease takes a lease of the store, see fleet.Store.
func (s *FlakyStore) AcquireLease(ctx context.Context, key, owner string, ttl time.Duration) (int64, error) {
	if err := s.maybeFail(); err != nil {
		return 0, err
	}
	return s.Store.AcquireLease(ctx, key, owner, ttl)
}

// RenewLeases renews the leases in the store, see fleet.Store.
func (s *FlakyStore) RenewLeases(ctx context.Context, owner string, ttl time.Duration, keys []string) (map[string]int64, error) {
	if err := s.maybeFail(); err != nil {
		return nil, err
	}
	return s.Store.RenewLeases(ctx, owner, ttl, keys)
}

// LastDone calls the LastDone of the store, see fleet.Store. It fails only if FailEvery is 1, and its calls are not
// counted. Polls call it at times that depend on the clock, and these calls must not change which other calls fail.
func (s *FlakyStore) LastDone(ctx context.Context, key string) (time.Duration, bool, error) {
	if s.FailEvery.Load() == 1 { // all calls fail
		return 0, false, ErrFlaky
	}
	return s.Store.LastDone(ctx, key)
}

// ReleaseLease calls the hook of OnRelease and releases a lease of the store, see fleet.Store.
func (s *FlakyStore) ReleaseLease(ctx context.Context, key, owner string) error {
	s.mu.Lock()
	hook := s.onRelease
	s.mu.Unlock()
	if hook != nil {
		defer hook(key)()
	}
	return s.Store.ReleaseLease(ctx, key, owner)
}
