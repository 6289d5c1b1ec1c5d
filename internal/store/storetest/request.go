package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

var requestCases = []testCase{
	{"a request is stored only for its principal", func(t *testing.T, s fleet.Store) {
		full := &fleet.Request{
			Principal: "alice", ID: "r/1 ✓", Method: "/fleet.v1.FleetService/CreateAgent", BodyHash: "abc", AgentUID: "u1",
			TaskID: "t1", CreatedAt: noon,
		}
		bare := &fleet.Request{Principal: "bob", ID: "r/1 ✓"}
		insertRows(t, s, full, bare)
		require.Equal(t, full, getRequest(t, s, "alice", "r/1 ✓"))
		require.Equal(t, bare, getRequest(t, s, "bob", "r/1 ✓"))
		require.Nil(t, getRequest(t, s, "carol", "r/1 ✓"))
		require.Nil(t, getRequest(t, s, "alice", "R/1 ✓"))
	}},

	{"a second request with the same id is an error", func(t *testing.T, s fleet.Store) {
		first := &fleet.Request{Principal: "alice", ID: "r1", BodyHash: "a", CreatedAt: noon}
		insertRows(t, s, first)
		requireInternal(t, s.Update(t.Context(), func(tx fleet.Tx) error {
			return tx.Insert(&fleet.Request{Principal: "alice", ID: "r1", BodyHash: "b", CreatedAt: noon.Add(time.Hour)})
		}))
		require.Equal(t, first, getRequest(t, s, "alice", "r1"))
	}},

	{"a hundred concurrent requests have one effect", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		answers := make([]string, 100)
		require.Empty(t, runConcurrently(len(answers), func(i int) error {
			return s.Update(t.Context(), func(tx fleet.Tx) error {
				done, err := tx.Request("alice", "r1")
				if err != nil {
					return err
				}
				if done != nil {
					answers[i] = done.TaskID
					return nil
				}
				task := newTask(id("t", i), a)
				answers[i] = task.ID
				if err := tx.Insert(task); err != nil {
					return err
				}
				return tx.Insert(&fleet.Request{Principal: "alice", ID: "r1", TaskID: task.ID})
			})
		}))
		tasks, total := listTasks(t, s, a.UID, 10, 0)
		require.Equal(t, 1, total)
		for _, answer := range answers {
			require.Equal(t, tasks[0].ID, answer)
		}
	}},
}

func getRequest(t tb, s fleet.Store, principal, id string) *fleet.Request {
	t.Helper()
	return read(t, s, func(tx fleet.ReadTx) (*fleet.Request, error) { return tx.Request(principal, id) })
}
