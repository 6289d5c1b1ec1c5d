package storetest

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

var payloadCases = []testCase{
	{"comes back byte for byte", func(t *testing.T, s fleet.Store) {
		a := withAgent(t, s)
		noise := make([]byte, 10<<20)
		_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
		for i, payload := range [][]byte{
			[]byte(`{"ok": true}`), {0}, {}, []byte("\x00\xff\xfe"), noise, bytes.Repeat([]byte("fleet "), 10<<20/6),
		} {
			task := fullTask(id("t", i), a)
			update(t, s, func(tx fleet.Tx) error {
				require.NoError(t, tx.InsertTask(task))
				return tx.PutPayload(task.ID, payload)
			})
			got := getPayload(t, s, task.ID)
			require.True(t, bytes.Equal(payload, got), "a payload of %d bytes", len(payload))
		}
	}},

	{"nil when there is none", func(t *testing.T, s fleet.Store) {
		a := withAgent(t, s)
		update(t, s, func(tx fleet.Tx) error { return tx.InsertTask(newTask("t1", a)) })
		require.Nil(t, getPayload(t, s, "t1"))
		require.Nil(t, getPayload(t, s, "nothing"))
	}},

	{"of a task that is not there is an error", func(t *testing.T, s fleet.Store) {
		requireBroken(t, s.Update(t.Context(), func(tx fleet.Tx) error { return tx.PutPayload("nothing", []byte("x")) }))
	}},

	{"the last one counts", func(t *testing.T, s fleet.Store) {
		a := withAgent(t, s)
		update(t, s, func(tx fleet.Tx) error {
			require.NoError(t, tx.InsertTask(newTask("t1", a)))
			require.NoError(t, tx.PutPayload("t1", []byte("a longer one")))
			return tx.PutPayload("t1", []byte("b"))
		})
		require.Equal(t, []byte("b"), getPayload(t, s, "t1"))
	}},
}

func getPayload(t tb, s fleet.Store, id string) []byte {
	t.Helper()
	return read(t, s, func(tx fleet.ReadTx) ([]byte, error) { return tx.Payload(id) })
}
