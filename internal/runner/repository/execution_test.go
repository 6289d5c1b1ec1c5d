package repository

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestLinger checks that an execution continues for a while without callers, that a caller in that time gets its result, and
// that the execution ends if no caller comes.
func TestLinger(t *testing.T) {
	for name, delay := range map[string]time.Duration{"in time": 30 * time.Second, "too late": 2 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s executions
				var check slowCheck
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := s.execute(ctx, "home", time.Minute, check.execute)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				time.Sleep(delay)
				synctest.Wait()
				result, err := s.execute(t.Context(), "home", time.Minute, check.execute)
				require.NoError(t, err)
				require.Equal(t, fleet.CheckPassed, result.Status)
				if delay < time.Minute {
					require.Equal(t, []int{1, 0}, []int{check.starts, check.cancels})
				} else {
					require.Equal(t, []int{2, 1}, []int{check.starts, check.cancels})
				}
				s.running.Wait()
			})
		})
	}
}

// TestLingerBeginsAnew checks that the time without callers starts again when a caller leaves.
func TestLingerBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e executions
		var check slowCheck
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := e.execute(ctx, "home", time.Minute, check.execute)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			time.Sleep(45 * time.Second) // less than a minute after this caller left; in the second round, more than a minute after the first caller left
		}
		result, err := e.execute(t.Context(), "home", time.Minute, check.execute)
		require.NoError(t, err)
		require.Equal(t, fleet.CheckPassed, result.Status)
		require.Equal(t, 1, check.starts)
		e.running.Wait()
	})
}

// slowCheck is a check that takes three minutes.
type slowCheck struct {
	starts  int // how often it was started
	cancels int // how often its context has ended before the three minutes were over
}

func (c *slowCheck) execute(ctx context.Context) (fleet.CheckResult, error) {
	c.starts++
	select {
	case <-time.After(3 * time.Minute):
		return fleet.CheckResult{Status: fleet.CheckPassed}, nil
	case <-ctx.Done():
		c.cancels++
		return fleet.CheckResult{}, ctx.Err()
	}
}
