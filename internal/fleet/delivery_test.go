package fleet_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestDeliveryAttempts checks when a delivery is sent again, and for how long.
func TestDeliveryAttempts(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for _, jitter := range []float64{0, 1} {
		d := &fleet.Delivery{Status: fleet.DeliveryWaiting, NextAt: start}
		var last time.Duration
		n := 0
		for ; d.Status == fleet.DeliveryWaiting; n++ {
			at := d.NextAt
			d.RecordAttempt(fleet.DeliveryAttempt{At: at, Code: 500}, 0, jitter)
			if d.Status == fleet.DeliveryWaiting {
				require.Greater(t, d.NextAt.Sub(at), last, "pauses must grow")
				last = d.NextAt.Sub(at)
			} else {
				require.Zero(t, d.NextAt)
				require.InDelta(t, (3 * 24 * time.Hour).Hours(), at.Sub(start).Hours(), 12, "it is sent for about three days")
			}
		}
		require.Equal(t, 10, n)
		require.Equal(t, fleet.DeliveryFailed, d.Status)
		d.Requeue(start)
		require.Equal(t, fleet.DeliveryWaiting, d.Status)
		d.RecordAttempt(fleet.DeliveryAttempt{At: start, Code: 200}, 0, jitter)
		require.Equal(t, fleet.DeliveryDelivered, d.Status)
		require.Len(t, d.Attempts, 11)
	}

	record := func(code int, retryAfter time.Duration) *fleet.Delivery {
		d := &fleet.Delivery{Status: fleet.DeliveryWaiting, NextAt: start}
		d.RecordAttempt(fleet.DeliveryAttempt{At: start, Took: time.Second, Code: code}, retryAfter, 0.5)
		return d
	}
	require.Equal(t, start.Add(6*time.Second), record(503, 0).NextAt)
	require.Equal(t, start.Add(61*time.Second), record(503, time.Minute).NextAt, "the receiver asks for a longer pause")
	require.Equal(t, start.Add(6*time.Second), record(503, time.Second).NextAt, "the receiver cannot shorten the pause")
	require.Equal(t, start.Add(24*time.Hour+time.Second), record(503, 1000*time.Hour).NextAt)
	require.Equal(t, fleet.DeliveryFailed, record(410, 0).Status)
	require.Equal(t, fleet.DeliveryWaiting, record(302, 0).Status, "a redirect does not accept the delivery")

	test := &fleet.Delivery{Type: fleet.DeliveryTest, Status: fleet.DeliveryWaiting, NextAt: start}
	test.RecordAttempt(fleet.DeliveryAttempt{At: start, Code: 500}, 0, 0)
	require.Equal(t, fleet.DeliveryFailed, test.Status, "a test is sent once")

	for range 30 {
		test.RecordAttempt(fleet.DeliveryAttempt{At: start, Code: 500}, 0, 0)
	}
	require.Len(t, test.Attempts, 20)
}
