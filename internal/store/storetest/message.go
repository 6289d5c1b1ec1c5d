package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

var messageCases = []testCase{
	{"messages come back with every field, in the order of insertion", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		open := &fleet.Message{ID: "alice/r 1 ✓", TaskID: "t1", Text: "日本語 'quotes'\r\n end", CreatedAt: noon.Add(time.Hour), FromTask: "t9", PromptTry: fleet.NextPrompt}
		given := &fleet.Message{ID: "m0", TaskID: "t1", CreatedAt: noon, DeliveredAt: noon.Add(time.Second)}
		refused := &fleet.Message{ID: "m2", TaskID: "t1", Text: "x", CreatedAt: noon, RefusalReason: fleet.ReasonNoRunningTask, RefusalText: "too late"}
		insertRows(t, s, newTask("t1", a), open, given, refused)
		require.Equal(t, []*fleet.Message{open, given, refused}, getMessages(t, s, "t1"))
		require.Empty(t, getMessages(t, s, "t2"))
		require.Equal(t, open, getMessage(t, s, open.ID))
		require.Nil(t, getMessage(t, s, "M0"))
		require.True(t, open.Open())
		require.False(t, given.Open() || refused.Open())
	}},

	{"a final status never changes", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		one := &fleet.Message{ID: "m1", TaskID: "t1", Text: "one", CreatedAt: noon}
		two := &fleet.Message{ID: "m2", TaskID: "t1", Text: "two", CreatedAt: noon}
		insertRows(t, s, newTask("t1", a), one, two)
		one.DeliveredAt = noon.Add(time.Minute)
		two.RefusalReason, two.RefusalText = fleet.ReasonUnimplemented, "it takes none"
		updateRows(t, s, one, two)
		require.Equal(t, []*fleet.Message{one, two}, getMessages(t, s, "t1"))
		for _, m := range []fleet.Message{
			{ID: "m1", DeliveredAt: noon}, {ID: "m1"}, {ID: "m2", RefusalReason: fleet.ReasonNoRunningTask}, {ID: "m2", DeliveredAt: noon}, {ID: "m3", DeliveredAt: noon},
		} {
			requireInternal(t, tryUpdate(t, s, &m))
		}
		require.Equal(t, []*fleet.Message{one, two}, getMessages(t, s, "t1"))
	}},

	{"a message needs a new id and an existing task", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		insertRows(t, s, newTask("t1", a), &fleet.Message{ID: "m1", TaskID: "t1", CreatedAt: noon})
		for _, m := range []fleet.Message{
			{ID: "m1", TaskID: "t1"},
			{ID: "m2", TaskID: "none"},
			{ID: "", TaskID: "t1"},
			{ID: "m2", TaskID: "t1", DeliveredAt: noon, RefusalReason: fleet.ReasonInternal},
		} {
			m.CreatedAt = noon
			requireInternal(t, tryInsert(t, s, &m))
		}
	}},
}

func getMessage(t tb, s fleet.Store, id string) *fleet.Message {
	t.Helper()
	return read(t, s, func(tx fleet.ReadTx) (*fleet.Message, error) {
		return fleet.First(tx.Messages(fleet.MessageFilter{ID: id}))
	})
}

func getMessages(t tb, s fleet.Store, taskID string) []*fleet.Message {
	t.Helper()
	return read(t, s, func(tx fleet.ReadTx) ([]*fleet.Message, error) {
		return tx.Messages(fleet.MessageFilter{TaskID: taskID})
	})
}
