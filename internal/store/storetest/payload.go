package storetest

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

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

	{"a payload grows in pieces, and can be replaced", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		noise := make([]byte, 1<<20)
		_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
		insertRows(t, s, newTask("t1", a))
		require.Nil(t, getPayload(t, s, "t1"))
		var want []byte
		for _, piece := range [][]byte{[]byte("begin\x00\xff"), noise, {0, 0}, []byte("end")} {
			update(t, s, func(tx fleet.Tx) error { return tx.Put("t1", fleet.PayloadPiece(piece)) })
			want = append(want, piece...)
			require.True(t, bytes.Equal(want, getPayload(t, s, "t1")))
		}
		update(t, s, func(tx fleet.Tx) error { return tx.Put("t1", fleet.Payload("b")) })
		require.Equal(t, []byte("b"), getPayload(t, s, "t1"))
		for _, unknown := range []fleet.Part{fleet.Payload("x"), fleet.PayloadPiece("x")} {
			requireInternal(t, s.Update(t.Context(), func(tx fleet.Tx) error { return tx.Put("nothing", unknown) }))
		}
	}},

	{"a payload is returned in its stored form", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		update(t, s, func(tx fleet.Tx) error {
			require.NoError(t, tx.Insert(newTask("t1", a)))
			return tx.Put("t1", fleet.Payload("some bytes"))
		})
		packed := func(id string) []byte {
			return read(t, s, func(tx fleet.ReadTx) ([]byte, error) { return tx.PackedPayload(id) })
		}
		z, err := gzip.NewReader(bytes.NewReader(packed("t1")))
		require.NoError(t, err)
		z.Multistream(false)
		got, err := io.ReadAll(z)
		require.NoError(t, err)
		require.Equal(t, "some bytes", string(got))
		require.Nil(t, packed("nothing"))
	}},

	{"payloads are removed after their retention", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		for i, ended := range []time.Duration{-3, -2, -1, 1} {
			task := newTask(id("t", i), a)
			task.Status, task.EndedAt, task.PayloadSize = fleet.TaskCompleted, noon.Add(ended*time.Hour), 7
			update(t, s, func(tx fleet.Tx) error {
				require.NoError(t, tx.Insert(task))
				return tx.Put(task.ID, fleet.Payload("payload"))
			})
		}
		running := newTask("running", a)
		running.PayloadSize = 7
		update(t, s, func(tx fleet.Tx) error {
			require.NoError(t, tx.Insert(running))
			return tx.Put(running.ID, fleet.Payload("payload"))
		})
		requirePruned(t, s, fleet.PrunePayloads, noon, 2, 2, 1, 0)
		for i := range 4 {
			task := getTask(t, s, id("t", i))
			require.Equal(t, i < 3, task.PayloadRemoved)
			require.Equal(t, 7, task.PayloadSize)
			require.Equal(t, i < 3, getPayload(t, s, task.ID) == nil)
		}
		require.NotNil(t, getPayload(t, s, "running"))
		require.False(t, getTask(t, s, "running").PayloadRemoved)
	}},

	{"attachments are removed after their retention, and with their task", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		files := []fleet.Attachment{{Name: "b.png", MediaType: "image/png", Content: []byte("\x00\xff")}, {Name: "a ä.txt", MediaType: "text/plain", Content: []byte("text")}}
		for i, ended := range []time.Duration{-3, 1} {
			task := newTask(id("t", i), a)
			task.Status, task.EndedAt = fleet.TaskCompleted, noon.Add(ended*time.Hour)
			update(t, s, func(tx fleet.Tx) error {
				return errors.Join(tx.Insert(task), tx.Put(task.ID, fleet.Attachments(files)))
			})
		}
		update(t, s, func(tx fleet.Tx) error {
			return errors.Join(tx.Insert(newTask("running", a)), tx.Put("running", fleet.Attachments(files[:1])))
		})
		attachments := func(task string) []fleet.Attachment {
			return read(t, s, func(tx fleet.ReadTx) ([]fleet.Attachment, error) { return tx.Attachments(task) })
		}
		withoutContent := func(task string) []fleet.Attachment {
			return read(t, s, func(tx fleet.ReadTx) ([]fleet.Attachment, error) { return tx.AttachmentsWithoutContent(task) })
		}
		want := slices.Clone(files)
		want[0].Size, want[1].Size = 2, 4
		require.Equal(t, want, attachments(id("t", 0)))
		want[0].Content, want[1].Content = nil, nil
		require.Equal(t, want, withoutContent(id("t", 0)))
		requirePruned(t, s, fleet.PrunePayloads, noon, 2, 2, 0)
		require.Empty(t, attachments(id("t", 0)))
		require.Len(t, attachments("running"), 1)
		require.Equal(t, want, withoutContent(id("t", 1)))
		update(t, s, func(tx fleet.Tx) error { return tx.Delete(&fleet.Task{ID: id("t", 1)}) })
		require.Empty(t, withoutContent(id("t", 1)))
	}},
}

func getPayload(t tb, s fleet.Store, id string) []byte {
	t.Helper()
	return read(t, s, func(tx fleet.ReadTx) ([]byte, error) { return tx.Payload(id) })
}
