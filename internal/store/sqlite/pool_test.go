package sqlite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/waittest"
)

// TestUpdatesPassLeases checks that an update overtakes calls of workers that wait, such as AcquireLease and ReleaseLease.
func TestUpdatesPassLeases(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	_, err := s.AcquireLease(t.Context(), "agent/1", "worker", time.Hour)
	require.NoError(t, err)
	c, err := s.writer.acquire(t.Context())
	require.NoError(t, err)
	awaitQueue := func(foreground, background int) {
		waittest.Until(t, "a queue gives no signal", func() bool {
			f, b := s.writer.conns.Waiting()
			return f == foreground && b == background
		})
	}
	leaseErr, releaseErr, updateErr := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := s.AcquireLease(t.Context(), "agent/2", "worker", time.Hour)
		leaseErr <- err
	}()
	awaitQueue(0, 1)
	go func() { releaseErr <- s.ReleaseLease(t.Context(), "agent/1", "worker") }()
	awaitQueue(0, 2)
	var found map[string]string
	go func() {
		updateErr <- s.Update(t.Context(), func(fleet.Tx) (err error) {
			found, err = s.Leases(t.Context(), "agent/")
			return err
		})
	}()
	awaitQueue(1, 2)
	s.writer.conns.Release(t.Context(), c)
	require.NoError(t, <-updateErr)
	require.Equal(t, map[string]string{"agent/1": "worker"}, found)
	require.NoError(t, <-leaseErr)
	require.NoError(t, <-releaseErr)
}
