package servicetest

import (
	"context"
	"sync/atomic"
)

// Hang blocks until ctx ends, and returns its error.
func Hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// OnCall returns a function that calls f the n-th time it is called, and at no other time.
func OnCall(n int, f func()) func() {
	var calls atomic.Int64
	return func() {
		if calls.Add(1) == int64(n) {
			f()
		}
	}
}
