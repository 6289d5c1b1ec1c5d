package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// processCases open the data of a store again: while the store is open, as another process would, or after it was closed.
var processCases = []testCase{
	{"committed data survives closing", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		task, e := fullTask("t1", a), newEvent(fleet.EventTaskEnded, a, "done")
		r, k := &fleet.Request{Principal: "alice", ID: "r1"}, newToken("alice", "h1")
		insertRows(t, s, task, r, k)
		update(t, s, func(tx fleet.Tx) error {
			require.NoError(t, tx.Put("t1", fleet.Payload("result")))
			return tx.Append(e)
		})
		require.Positive(t, takeLease(t, s, "k", "one", time.Hour))
		if _, ok := s.(Reopener); !ok {
			t.Skip("the store cannot be reopened")
		}
		require.NoError(t, s.Close())
		s = reopen(t, s)
		require.Equal(t, []*fleet.Agent{a}, read(t, s, liveAgents))
		require.Equal(t, task, getTask(t, s, "t1"))
		require.Equal(t, []byte("result"), getPayload(t, s, "t1"))
		requireEvents(t, listEvents(t, s, fleet.EventFilter{}, 0, 10), e)
		require.Equal(t, r, getRequest(t, s, "alice", "r1"))
		require.Equal(t, k, getToken(t, s, "alice"))
		require.Zero(t, takeLease(t, s, "k", "two", time.Hour))
		require.Greater(t, appendEvent(t, s), e.Seq)
	}},

	{"two processes see each other's commits at once", func(t *testing.T, s fleet.Store) {
		other := reopen(t, s)
		for range 10 {
			seq := appendEvent(t, s)
			got, err := other.LastSeq(t.Context())
			require.NoError(t, err)
			require.Equal(t, seq, got)
			require.Equal(t, seq+1, appendEvent(t, other))
		}
	}},

	{"two processes with many writes lose nothing", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		both := []fleet.Store{s, reopen(t, s)}
		const writers, each = 10, 20
		require.Empty(t, runConcurrently(writers, func(i int) error {
			for range each {
				err := both[i%2].Update(t.Context(), func(tx fleet.Tx) error {
					a, err := tx.Agent(a.UID)
					if err != nil {
						return err
					}
					a.Attempts++
					if err := tx.Update(a); err != nil {
						return err
					}
					return tx.Append(newEvent(fleet.EventAgentChanged, a, ""))
				})
				if err != nil {
					return err
				}
			}
			return nil
		}))
		got := getAgent(t, s, a.UID)
		require.Equal(t, a.Attempts+writers*each, got.Attempts)
		require.Equal(t, a.Revision+writers*each, got.Revision)
		require.Len(t, listEvents(t, both[1], fleet.EventFilter{}, 0, 1000), writers*each)
	}},

	{"constraints hold between two processes", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		both := []fleet.Store{s, reopen(t, s)}
		errs := runConcurrently(40, func(i int) error {
			return both[i%2].Update(t.Context(), func(tx fleet.Tx) error {
				if err := tx.Insert(newTask(id("t", i), a)); err != nil {
					return err
				}
				return tx.Append(newEvent(fleet.EventTaskCreated, a, ""))
			})
		})
		requireReasons(t, errs, 39, fleet.ReasonAgentBusy, "papi")
		_, total := listTasks(t, s, a.UID, 10, 0)
		require.Equal(t, 1, total)
		require.Len(t, listEvents(t, s, fleet.EventFilter{}, 0, 10), 1)
		require.Positive(t, takeLease(t, both[0], "k", "one", time.Hour))
		require.Zero(t, takeLease(t, both[1], "k", "two", time.Hour))
		requireReason(t, tryInsert(t, both[1], newAgent("u2", "PAPI", "alice")), fleet.ReasonAgentExists, "PAPI")
	}},
}

// reopen opens the data of s again. It skips the test if s cannot be reopened.
func reopen(t *testing.T, s fleet.Store) fleet.Store {
	t.Helper()
	r, ok := s.(Reopener)
	if !ok {
		t.Skip("the store cannot be reopened")
	}
	return r.Reopen(t)
}
