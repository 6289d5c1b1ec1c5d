package fleet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRetryAtHasALimit checks that a report of a run delays the next attempt for at most maxWindowLength.
func TestRetryAtHasALimit(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	var e QueueEntry
	require.True(t, e.RecordFailure(Attempt{At: now, Code: CodeRateLimited}, now.AddDate(10, 0, 0), 0))
	require.Equal(t, now.Add(maxWindowLength), e.RetryAt)
}
