package sqlite_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestPayloadsAreKeptCompressed checks that payloads are stored compressed, and that reading a damaged one fails.
func TestPayloadsAreKeptCompressed(t *testing.T) {
	t.Parallel()
	s := open(t)
	a := &fleet.Agent{UID: "u1", Name: "papi", State: fleet.StateRunning, Desired: fleet.DesiredRunning}
	task := &fleet.Task{ID: "t1", AgentUID: "u1", Source: fleet.SourceHuman, Status: fleet.TaskRunning}
	require.NoError(t, s.Update(t.Context(), func(tx fleet.Tx) error {
		require.NoError(t, tx.Insert(a))
		require.NoError(t, tx.Insert(task))
		return tx.Put("t1", fleet.Payload(make([]byte, 1<<20)))
	}))
	readPayload := func() (payload []byte, err error) {
		err = s.View(t.Context(), func(tx fleet.ReadTx) error {
			payload, err = tx.Payload("t1")
			return err
		})
		return payload, err
	}
	got, err := readPayload()
	require.NoError(t, err)
	require.Len(t, got, 1<<20)

	db := openRaw(t, s.path)
	var size int
	require.NoError(t, db.QueryRow(`SELECT length(gzip) FROM payloads`).Scan(&size))
	require.Less(t, size, 10_000)

	for _, c := range []struct{ damage, want string }{
		{`UPDATE payloads SET size = 1000`, "its size is not the recorded 1000 bytes"},
		{`UPDATE payloads SET size = 1 << 60`, "its size is not the recorded 1152921504606846976 bytes"},
		{`UPDATE payloads SET size = 1 << 20, gzip = CAST(substr(gzip, 1, length(gzip) - 8) || x'0000000000001000' AS BLOB)`, "invalid checksum"},
		{`UPDATE payloads SET gzip = x'00'`, "read a payload"},
	} {
		_, err = db.Exec(c.damage)
		require.NoError(t, err)
		_, err := readPayload()
		require.ErrorContains(t, err, c.want, c.damage)
	}
}
