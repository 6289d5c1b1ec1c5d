package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// concurrentCases run concurrent transactions on two open stores with the same data. A store may run them one after the
// other.
var concurrentCases = []testCase{
	{"an event that is committed late is not skipped", func(t *testing.T, s fleet.Store) {
		other := reopen(t, s)
		for range 5 {
			inside, goOn := make(chan struct{}), make(chan struct{})
			late, early := make(chan error, 1), make(chan error, 1)
			after, err := s.LastSeq(t.Context())
			require.NoError(t, err)
			go func() {
				late <- s.Update(t.Context(), func(tx fleet.Tx) error {
					require.NoError(t, tx.Append(newEvent(fleet.EventAgentChanged, newAgent("u1", "a", "alice"), "late")))
					if _, err := tx.Agent("u1"); err != nil {
						return err
					}
					close(inside)
					<-goOn
					return nil
				})
			}()
			<-inside
			go func() {
				early <- other.Update(t.Context(), func(tx fleet.Tx) error {
					return tx.Append(newEvent(fleet.EventAgentChanged, newAgent("u2", "b", "bob"), "early"))
				})
			}()
			var events []fleet.Event
			readNew := func() {
				page := listEvents(t, other, fleet.EventFilter{}, after, 10)
				if events = append(events, page...); len(page) > 0 {
					after = page[len(page)-1].Seq
				}
			}
			select {
			case err := <-early:
				require.NoError(t, err)
				readNew()
				require.Len(t, events, 1)
				early <- nil
			case <-time.After(20 * time.Millisecond): // this store makes early wait for late
			}
			close(goOn)
			require.NoError(t, <-late)
			require.NoError(t, <-early)
			readNew()
			require.Len(t, events, 2)
			require.NotEqual(t, events[0].Text, events[1].Text)
		}
	}},

	{"a limit holds for concurrent transactions", func(t *testing.T, s fleet.Store) {
		both := []fleet.Store{s, reopen(t, s)}
		const limit = 5
		errs := runConcurrently(30, func(i int) error {
			return both[i%2].Update(t.Context(), func(tx fleet.Tx) error {
				n, err := countAgents(tx, i, limit)
				if err != nil {
					return err
				}
				if n >= limit {
					return errTest
				}
				return tx.Insert(newAgent(id("u", i), id("a", i), "alice"))
			})
		})
		requireTestErrors(t, errs, 30-limit)
		require.Equal(t, limit, holdings(t, s, "alice").AllAgents())
	}},

	{"a high limit holds for concurrent transactions", func(t *testing.T, s fleet.Store) {
		both := []fleet.Store{s, reopen(t, s)}
		const limit, room = 1_000, 5
		add := func(tx fleet.Tx, n int) error {
			return tx.Insert(newAgent(id("u", n), id("a", n), "alice"))
		}
		addAndCount := func(i int) error {
			return both[i%2].Update(t.Context(), func(tx fleet.Tx) error {
				if err := add(tx, i); err != nil {
					return err
				}
				n, err := countAgents(tx, i, limit)
				if err == nil && n > limit {
					err = errTest
				}
				return err
			})
		}
		require.Empty(t, runConcurrently(10, addAndCount), "far below the limit, all transactions must succeed")
		update(t, s, func(tx fleet.Tx) error {
			for n := 10; n < limit-room; n++ {
				if err := add(tx, n); err != nil {
					return err
				}
			}
			return nil
		})
		errs := runConcurrently(20, func(i int) error { return addAndCount(limit + i) })
		requireTestErrors(t, errs, 20-room)
		require.Equal(t, limit, holdings(t, s, "alice").AllAgents())
	}},

	{"only one of two conflicting transactions succeeds", func(t *testing.T, s fleet.Store) {
		both := []fleet.Store{s, reopen(t, s)}
		for i := range 20 { // the result is either a new task or a deleted agent
			a := newAgent(id("u", i), id("a", i), "alice")
			insertRows(t, s, a)
			errs := runConcurrently(2, func(n int) error {
				return both[n].Update(t.Context(), func(tx fleet.Tx) error {
					agents, err := tx.Agents(fleet.AgentFilter{Name: a.Name, Owner: "alice"})
					if err != nil || len(agents) == 0 {
						return errTest
					}
					task, err := tx.RunningTask(a.UID)
					switch {
					case err != nil:
						return err
					case task != nil:
						return errTest
					case n == 0:
						return tx.Insert(newTask(id("t", i), a))
					}
					agents[0].State, agents[0].DeletedAt = fleet.StateDeleted, noon
					return tx.Update(agents[0])
				})
			})
			require.Len(t, errs, 1)
			require.ErrorIs(t, errs[0], errTest)
		}
	}},

	{"concurrent transactions that check a name use it once", func(t *testing.T, s fleet.Store) {
		both := []fleet.Store{s, reopen(t, s)}
		var added [10]bool
		require.Empty(t, runConcurrently(len(added), func(i int) error {
			return both[i%2].Update(t.Context(), func(tx fleet.Tx) error {
				added[i] = false
				agents, err := tx.Agents(fleet.AgentFilter{Name: "papi"})
				if err != nil || len(agents) > 0 {
					return err
				}
				added[i] = true
				return tx.Insert(newAgent(id("u", i), "papi", id("owner", i)))
			})
		}))
		require.Len(t, read(t, s, liveAgents), 1)
	}},

	{"transactions that update rows in different orders all succeed", func(t *testing.T, s fleet.Store) {
		both := []fleet.Store{s, reopen(t, s)}
		one, two := newAgent("u1", "a", "alice"), newAgent("u2", "b", "alice")
		insertRows(t, s, one, two)
		require.Empty(t, runConcurrently(10, func(i int) error {
			uids := []string{"u1", "u2"}
			return both[i%2].Update(t.Context(), func(tx fleet.Tx) error {
				for n := range uids {
					a, err := tx.Agent(uids[(n+i)%2])
					if err != nil {
						return err
					}
					a.Attempts++
					if err := tx.Update(a); err != nil {
						return err
					}
				}
				return nil
			})
		}))
		for _, a := range read(t, s, liveAgents) {
			require.Equal(t, one.Attempts+10, a.Attempts)
		}
	}},

	{"a view that shows a task as ended shows the event of its end", func(t *testing.T, s fleet.Store) {
		other := reopen(t, s)
		a := addAgent(t, s)
		for i := range 20 {
			task := newTask(id("t", i), a)
			insertRows(t, s, task)
			done := make(chan error, 1)
			go func() {
				done <- s.Update(t.Context(), func(tx fleet.Tx) error {
					task.Status, task.EndedAt = fleet.TaskCompleted, noon
					e := newEvent(fleet.EventTaskEnded, a, "")
					e.TaskID = task.ID
					require.NoError(t, tx.Append(e))
					return tx.Update(task)
				})
			}()
			for ended := false; !ended; {
				var log []fleet.Event
				view(t, other, func(tx fleet.ReadTx) error {
					task, err := tx.Task(task.ID)
					require.NoError(t, err)
					ended = !task.Active()
					log, err = tx.Events(fleet.EventFilter{TaskID: task.ID}, fleet.EventWindow{Limit: 10})
					return err
				})
				require.Equal(t, ended, len(log) == 1)
			}
			require.NoError(t, <-done)
		}
	}},
}

// countAgents counts alice's agents as callers do that enforce the limit. Depending on i, it counts all agents, or those of
// the toolset that newAgent uses.
func countAgents(tx fleet.Tx, i, limit int) (int, error) {
	if i%4 < 2 {
		h, err := tx.Holdings("alice", fleet.Limits{Agents: limit}, fleet.HoldingsScope{})
		return h.AllAgents(), err
	}
	h, err := tx.Holdings("alice", fleet.Limits{Agents: limit}, fleet.HoldingsScope{Toolset: new(fleet.ToolsetSubagents)})
	return h.AllAgents(), err
}
