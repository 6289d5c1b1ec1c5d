package postgres_test

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/store/postgres"
	"fleet/internal/store/postgres/pgtest"
)

// TestDeadConnections uses connections that stop passing data but do not fail. The store must notice that and replace them.
func TestDeadConnections(t *testing.T) {
	t.Parallel()
	pgtest.SkipUnlessEnabled(t)
	server, err := pgtest.Start("")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	other := openAt(t, server.URL("postgres"), postgres.Config{})
	for name, kill := range map[string]func(*pgtest.Link){"forgotten": (*pgtest.Link).Forget, "frozen": (*pgtest.Link).Freeze} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			link := pgtest.NewLink(t, server.Socket)
			s := openAt(t, fmt.Sprintf("postgres://fleet@127.0.0.1:%d/postgres?sslmode=disable", link.Port()), postgres.Config{})
			before, err := appendEvent(t.Context(), s, "before")
			require.NoError(t, err)
			requireNotified(t, s, other)

			kill(link)
			if name == "frozen" {
				requireNotified(t, s, other)
			}
			var after int64
			for after == 0 { // the first calls may fail because the database does not answer
				if after, err = appendEvent(t.Context(), s, "after"); err != nil {
					require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(err), "%v", err)
					if name == "forgotten" && runtime.GOOS == "linux" {
						// The kernel reports a timeout once. A background read of pgx, which a slow machine needs, may drop it.
						require.True(t, errors.Is(err, syscall.ETIMEDOUT) || errors.Is(err, io.ErrUnexpectedEOF),
							"the connection must fail, long before the limit of the call: %v", err)
					}
				}
			}
			require.Greater(t, after, before)
			requireNotified(t, s, other)
			seq, err := s.LastSeq(t.Context())
			require.NoError(t, err)
			require.GreaterOrEqual(t, seq, after)
			_, err = s.AcquireLease(t.Context(), name, "me", time.Hour)
			require.NoError(t, err)
		})
	}
	t.Run("frozen at the commit", func(t *testing.T) {
		t.Parallel()
		link := pgtest.NewLink(t, server.Socket)
		s := openAt(t, fmt.Sprintf("postgres://fleet@127.0.0.1:%d/postgres?sslmode=disable", link.Port()), postgres.Config{})
		err := s.Update(t.Context(), func(tx fleet.Tx) error {
			defer link.Freeze()
			return tx.Insert(&fleet.Request{Principal: "alice", ID: "r1", Method: "M", CreatedAt: time.Now()})
		})
		require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(err), "%v", err)
	})
}
