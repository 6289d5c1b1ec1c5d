// Package waittest bounds the waiting of tests.
//
// A test waits for a signal: a channel, the end of a process, an event of the fleet. It fails when none comes within
// Limit, which no test that passes ever feels. Where nothing gives a signal, it polls with Until and says why.
package waittest

import (
	"context"
	"testing"
	"time"
)

// Limit is how long a test waits before it fails. It is long because a loaded machine may be a hundred times slower than
// a quiet one, and because tests that are paused for others use it up too. It is shorter than the limit of the whole run,
// so that the test that hangs is named.
const Limit = 10 * time.Minute

// pause is the time between two looks of Until.
const pause = 5 * time.Millisecond

// Context returns a context that ends with the test, after the cleanups registered later, or after Limit.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), Limit)
	t.Cleanup(cancel)
	return ctx
}

// Signalled waits until ok returns true. It looks at once and after each signal.
func Signalled(t testing.TB, signal <-chan struct{}, ok func() bool) {
	t.Helper()
	limit := time.NewTimer(Limit)
	defer limit.Stop()
	for !ok() {
		select {
		case <-signal:
		case <-limit.C:
			t.Fatalf("it did not happen within %s", Limit)
		}
	}
}

// Until polls until ok returns true. Reason says why there is no signal to wait for; the failure shows it. Use it on the
// test's own goroutine only.
func Until(t testing.TB, reason string, ok func() bool) {
	t.Helper()
	limit := time.NewTimer(Limit)
	defer limit.Stop()
	again := time.NewTicker(pause)
	defer again.Stop()
	for !ok() {
		select {
		case <-again.C:
		case <-limit.C:
			t.Fatalf("it did not happen within %s (polled: %s)", Limit, reason)
		}
	}
}

// Growing calls try with longer and longer time limits, beginning with first, until try returns true. It is for tests of what
// happens at a time limit, where something else must happen before it. On a slow machine the limit can come too early: try
// then returns false.
func Growing(t testing.TB, first time.Duration, try func(limit time.Duration) bool) {
	t.Helper()
	for limit := first; !try(limit); limit *= 4 {
		if limit > Limit {
			t.Fatalf("it did not happen within %s", limit)
		}
	}
}
