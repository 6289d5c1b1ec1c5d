// Package waittest limits how long tests wait.
//
// A test waits for a signal, such as a channel, the end of a process, or an event of the fleet. It fails if no signal
// comes within Limit, so a test that passes waits only as long as it must. If there is no signal for a condition, the
// test polls with Until and gives the reason.
package waittest

import (
	"context"
	"testing"
	"time"
)

// Limit is how long a test waits before it fails. It is long because a loaded machine may be a hundred times slower
// than an idle one, and because the time also passes while a test is paused. It is shorter than the timeout of the
// whole test run, so that the failure names the test that hangs.
const Limit = 10 * time.Minute

// pollInterval is the time between two polls of Until.
const pollInterval = 5 * time.Millisecond

// Context returns a context that ends at the end of the test or after Limit. Cleanups that are registered after the
// call of Context can still use it.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), Limit)
	t.Cleanup(cancel)
	return ctx
}

// UntilSignalled waits until ok returns true. It calls ok at once and after each signal. It fails the test after Limit. Call
// it only on the test's own goroutine.
func UntilSignalled(t testing.TB, signal <-chan struct{}, ok func() bool) {
	t.Helper()
	limit := time.NewTimer(Limit)
	defer limit.Stop()
	for !ok() {
		select {
		case <-signal:
		case <-limit.C:
			t.Fatalf("the condition did not become true within %s", Limit)
		}
	}
}

// Until polls until ok returns true. It fails the test after Limit. reason says why there is no signal to wait for, and
// the failure shows it. Call Until only on the test's own goroutine.
func Until(t testing.TB, reason string, ok func() bool) {
	t.Helper()
	limit := time.NewTimer(Limit)
	defer limit.Stop()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("the condition did not become true within %s (polled, because: %s)", Limit, reason)
		}
	}
}

// WithGrowingLimit calls try with longer and longer time limits, beginning with first, until try returns true. It is for tests
// in which something must happen before a time limit is reached. On a slow machine, the limit may be reached first. Then try
// must return false. WithGrowingLimit fails the test if try returns false for a limit that is longer than Limit.
func WithGrowingLimit(t testing.TB, first time.Duration, try func(limit time.Duration) bool) {
	t.Helper()
	for limit := first; !try(limit); limit *= 4 {
		if limit > Limit {
			t.Fatalf("try did not succeed with a time limit of %s", limit)
		}
	}
}
