package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/store/postgres"
	"fleet/internal/store/postgres/pgtest"
)

// TestReadsWaitForTheLog leaves events in the inbox, like a replica that dies after a commit, before it has moved
// its events to the log. A view, and an update that reads and returns an error, must not return before the events are in the
// log.
func TestReadsWaitForTheLog(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s := openAt(t, url, postgres.Config{})
	conn := dial(t, url)
	for i := range int64(20) { // more than once, because each second the store moves such events by itself
		_, err := conn.Exec(t.Context(), insertIntoInbox)
		require.NoError(t, err)
		refusal := fleet.Errorf(fleet.ReasonAgentBusy, "busy")
		if i%2 == 0 {
			require.NoError(t, s.View(t.Context(), func(tx fleet.ReadTx) error {
				_, err := tx.Agent("u1")
				return err
			}))
			seq, err := s.LastSeq(t.Context())
			require.NoError(t, err)
			require.Equal(t, i+1, seq)
		}
		require.ErrorIs(t, s.Update(t.Context(), func(tx fleet.Tx) error {
			_, err := tx.Agent("u1")
			require.NoError(t, err)
			return refusal
		}), refusal)
		seq, err := s.LastSeq(t.Context())
		require.NoError(t, err)
		require.Equal(t, i+1, seq)
	}
}
