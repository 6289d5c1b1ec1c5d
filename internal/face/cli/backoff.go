package cli

import (
	"context"
	"math/rand/v2"
	"time"
)

// retryBackoff waits longer before each retry, up to about 2 seconds. The zero value is ready to use.
type retryBackoff struct {
	tries int
	since time.Time
}

// wait waits before the next retry. It returns false if ctx is done, or if the retries would take longer than the limit in all. A negative
// limit is never reached.
func (r *retryBackoff) wait(ctx context.Context, limit time.Duration) bool {
	if r.tries == 0 {
		r.since = time.Now()
	}
	length := min(50*time.Millisecond<<min(r.tries, 6), 2*time.Second)
	length = length*3/4 + rand.N(length/2)
	r.tries++
	if limit >= 0 && time.Since(r.since)+length > limit {
		return false
	}
	return sleep(ctx, length) == nil
}

// sleep waits for the duration. If ctx is done before, it returns the cause of that.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
