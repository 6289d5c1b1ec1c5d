package cli

import (
	"context"
	"math/rand/v2"
	"time"
)

// pause waits longer before each retry. The zero value is ready to use.
type pause struct {
	tries int
	since time.Time
}

// next waits before the next try. It returns false when the patience is used up or ctx is done. Negative patience is
// never used up.
func (b *pause) next(ctx context.Context, patience time.Duration) bool {
	if b.tries == 0 {
		b.since = time.Now()
	}
	length := min(50*time.Millisecond<<min(b.tries, 6), 2*time.Second)
	length = length*3/4 + rand.N(length/2)
	b.tries++
	if patience >= 0 && time.Since(b.since)+length > patience {
		return false
	}
	t := time.NewTimer(length)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
