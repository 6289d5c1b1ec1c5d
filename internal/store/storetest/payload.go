package storetest

import (
	"bytes"
	"compress/gzip"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

var payloadCases = []testCase{
	{"a payload comes back byte for byte", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		noise := make([]byte, 10<<20)
		_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
		for i, payload := range [][]byte{
			[]byte(`{"ok": true}`), {0}, {}, []byte("\x00\xff\xfe"), noise, bytes.Repeat([]byte("fleet "), 10<<20/6),
		} {
			task := fullTask(id("t", i), a)
			update(t, s, func(tx fleet.Tx) error {
				require.NoError(t, tx.Insert(task))
				return tx.Put(task.ID, fleet.Payload(payload))
			})
			got := getPayload(t, s, task.ID)
			require.True(t, bytes.Equal(payload, got), "a payload of %d bytes", len(payload))
		}
	}},

	{"a missing payload is nil", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		insertRows(t, s, newTask("t1", a))
		require.Nil(t, getPayload(t, s, "t1"))
		require.Nil(t, getPayload(t, s, "nothing"))
	}},

	{"an unknown task is an error", func(t *testing.T, s fleet.Store) {
		requireInternal(t, s.Update(t.Context(), func(tx fleet.Tx) error { return tx.Put("nothing", fleet.Payload("x")) }))
	}},

	{"a later payload replaces an earlier one", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		update(t, s, func(tx fleet.Tx) error {
			require.NoError(t, tx.Insert(newTask("t1", a)))
			require.NoError(t, tx.Put("t1", fleet.Payload("a longer one")))
			return tx.Put("t1", fleet.Payload("b"))
		})
		require.Equal(t, []byte("b"), getPayload(t, s, "t1"))
	}},

	{"a payload grows in pieces", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		noise := make([]byte, 1<<20)
		_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
		insertRows(t, s, newTask("t1", a))
		var want []byte
		for _, piece := range [][]byte{[]byte("begin\x00\xff"), noise, {0, 0}, []byte("end")} {
			update(t, s, func(tx fleet.Tx) error { return tx.Put("t1", fleet.PayloadPiece(piece)) })
			want = append(want, piece...)
			require.True(t, bytes.Equal(want, getPayload(t, s, "t1")))
		}
		requireInternal(t, s.Update(t.Context(), func(tx fleet.Tx) error { return tx.Put("nothing", fleet.PayloadPiece("x")) }))
	}},

	{"a payload is returned in its stored form", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		update(t, s, func(tx fleet.Tx) error {
			require.NoError(t, tx.Insert(newTask("t1", a)))
			return tx.Put("t1", fleet.Payload("some bytes"))
		})
		packed := func(id string) []byte {
			return read(t, s, func(tx fleet.ReadTx) ([]byte, error) { return tx.Payload(id, true) })
		}
		z, err := gzip.NewReader(bytes.NewReader(packed("t1")))
		require.NoError(t, err)
		z.Multistream(false)
		got, err := io.ReadAll(z)
		require.NoError(t, err)
		require.Equal(t, "some bytes", string(got))
		require.Nil(t, packed("nothing"))
	}},
}

func getPayload(t tb, s fleet.Store, id string) []byte {
	t.Helper()
	return read(t, s, func(tx fleet.ReadTx) ([]byte, error) { return tx.Payload(id, false) })
}
