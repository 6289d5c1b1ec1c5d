package conversation

import (
	"context"
	"sync"
	"time"
)

// Sweeper calls a function periodically in the background. A nil Sweeper does nothing.
type Sweeper struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// StartSweeper starts a goroutine that calls sweep at once, and then at every interval until Stop is called.
func StartSweeper(interval time.Duration, sweep func(context.Context)) *Sweeper {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Sweeper{cancel: cancel}
	s.done.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			sweep(ctx)
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return s
}

// Stop cancels the context of a running sweep, and waits until the goroutine has ended.
func (s *Sweeper) Stop() {
	if s != nil {
		s.cancel()
		s.done.Wait()
	}
}
