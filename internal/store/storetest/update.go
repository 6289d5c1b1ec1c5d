package storetest

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

var updateCases = []testCase{
	{"an update commits everything", func(t *testing.T, s fleet.Store) {
		a := newAgent("u1", "papi", "alice")
		e := newEvent(fleet.EventAgentCreated, a, "papi was created")
		update(t, s, func(tx fleet.Tx) error {
			require.NoError(t, tx.Insert(a))
			require.NoError(t, tx.Append(e))
			return tx.Insert(&fleet.Request{Principal: "alice", ID: "r1", CreatedAt: noon})
		})
		view(t, s, func(tx fleet.ReadTx) error {
			got, err := tx.Agent("u1")
			require.NoError(t, err)
			require.Equal(t, a, got)
			events, err := tx.Events(fleet.EventFilter{}, fleet.EventWindow{Limit: 10})
			require.NoError(t, err)
			requireEvents(t, events, e)
			r, err := tx.Request("alice", "r1")
			require.NoError(t, err)
			require.NotNil(t, r)
			return nil
		})
	}},

	{"an error rolls back and is returned unchanged", func(t *testing.T, s fleet.Store) {
		err := s.Update(t.Context(), func(tx fleet.Tx) error {
			require.NoError(t, tx.Insert(newAgent("u1", "papi", "alice")))
			require.NoError(t, tx.Append(newEvent(fleet.EventAgentCreated, newAgent("u1", "papi", "alice"), "")))
			return errTest
		})
		require.True(t, err == errTest, "%v", err) //nolint:errorlint // exactly this error
		requireEmpty(t, s)
	}},

	{"a panic rolls back and propagates", func(t *testing.T, s fleet.Store) {
		require.PanicsWithValue(t, "boom", func() {
			_ = s.Update(t.Context(), func(tx fleet.Tx) error {
				require.NoError(t, tx.Insert(newAgent("u1", "papi", "alice")))
				panic("boom")
			})
		})
		requireEmpty(t, s)
		addAgent(t, s)
	}},

	{"the end of the goroutine rolls back", func(t *testing.T, s fleet.Store) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = s.Update(t.Context(), func(tx fleet.Tx) error {
				_ = tx.Insert(newAgent("u1", "papi", "alice"))
				runtime.Goexit()
				return nil
			})
		}()
		<-done
		requireEmpty(t, s)
		addAgent(t, s)
	}},

	{"a failed write fails the transaction, even if fn continues", func(t *testing.T, s fleet.Store) {
		addAgent(t, s)
		err := s.Update(t.Context(), func(tx fleet.Tx) error {
			_ = tx.Append(newEvent(fleet.EventAgentCreated, newAgent("u1", "PAPI", "alice"), ""))
			_ = tx.Insert(newAgent("u1", "PAPI", "alice"))
			return nil
		})
		requireReason(t, err, fleet.ReasonAgentExists, "PAPI")
		require.Zero(t, read(t, s, fleet.ReadTx.LastSeq))
	}},

	{"fn can run again on fresh state", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		task, e := newTask("t1", a), newEvent(fleet.EventTaskCreated, a, "")
		update(t, Twice(s), func(tx fleet.Tx) error {
			fresh, err := tx.Agent(a.UID)
			require.NoError(t, err)
			require.Equal(t, int64(1), fresh.Revision)
			fresh.Attempts++
			require.NoError(t, tx.Update(fresh))
			require.NoError(t, tx.Insert(task))
			require.NoError(t, tx.Put(task.ID, fleet.Payload("result")))
			require.NoError(t, tx.Insert(&fleet.Request{Principal: "alice", ID: "r1"}))
			return tx.Append(e)
		})
		require.Equal(t, int64(1), task.Revision)
		view(t, s, func(tx fleet.ReadTx) error {
			got, err := tx.Agent(a.UID)
			require.NoError(t, err)
			require.Equal(t, a.Attempts+1, got.Attempts)
			events, err := tx.Events(fleet.EventFilter{}, fleet.EventWindow{Limit: 10})
			require.NoError(t, err)
			requireEvents(t, events, e)
			return nil
		})
	}},

	{"an update reads its own writes", func(t *testing.T, s fleet.Store) {
		a := newAgent("u1", "papi", "alice")
		update(t, s, func(tx fleet.Tx) error {
			require.NoError(t, tx.Insert(a))
			require.NoError(t, tx.Insert(newTask("t1", a)))
			require.NoError(t, tx.Append(newEvent(fleet.EventAgentCreated, a, "")))
			found, err := tx.Agents(fleet.AgentFilter{Name: "Papi", Owner: "alice"})
			require.NoError(t, err)
			require.Len(t, found, 1)
			task, err := tx.RunningTask("u1")
			require.NoError(t, err)
			require.Equal(t, "t1", task.ID)
			seq, err := tx.LastSeq()
			require.NoError(t, err)
			require.Positive(t, seq)
			return nil
		})
	}},

	{"a view is consistent", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		view(t, s, func(tx fleet.ReadTx) error {
			before, err := tx.Agent(a.UID)
			require.NoError(t, err)
			update(t, s, func(tx fleet.Tx) error {
				a.State = fleet.StateStopped
				require.NoError(t, tx.Append(newEvent(fleet.EventAgentChanged, a, "")))
				return tx.Update(a)
			})
			after, err := tx.Agent(a.UID)
			require.NoError(t, err)
			require.Equal(t, before, after)
			seq, err := tx.LastSeq()
			require.NoError(t, err)
			require.Zero(t, seq)
			return nil
		})
		got := getAgent(t, s, a.UID)
		require.Equal(t, fleet.StateStopped, got.State)
	}},

	{"the error of a view is returned unchanged", func(t *testing.T, s fleet.Store) {
		err := s.View(t.Context(), func(fleet.ReadTx) error { return errTest })
		require.True(t, err == errTest, "%v", err) //nolint:errorlint // exactly this error
	}},

	{"views run during an update", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		update(t, s, func(tx fleet.Tx) error {
			a.Role = "operator"
			require.NoError(t, tx.Update(a))
			got := getAgent(t, s, a.UID)
			require.Equal(t, "coder", got.Role)
			_, err := s.LastSeq(t.Context())
			return err
		})
	}},

	{"a cancelled context stops a call", func(t *testing.T, s fleet.Store) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		fail := func(fleet.Tx) error { t.Error("fn ran"); return nil }
		require.ErrorIs(t, s.Update(ctx, fail), context.Canceled)
		require.ErrorIs(t, s.View(ctx, func(fleet.ReadTx) error { t.Error("fn ran"); return nil }), context.Canceled)
		_, err := s.LastSeq(ctx)
		require.ErrorIs(t, err, context.Canceled)
		_, err = s.AcquireLease(ctx, "k", "me", 1)
		require.ErrorIs(t, err, context.Canceled)
		_, err = s.Prune(ctx, fleet.PruneHistory, noon, 10)
		require.ErrorIs(t, err, context.Canceled)
	}},

	{"a context cancelled during the call rolls back", func(t *testing.T, s fleet.Store) {
		ctx, cancel := context.WithCancel(t.Context())
		err := s.Update(ctx, func(tx fleet.Tx) error {
			require.NoError(t, tx.Insert(newAgent("u1", "papi", "alice")))
			cancel()
			return nil
		})
		require.ErrorIs(t, err, context.Canceled)
		requireEmpty(t, s)

		ctx, cancel = context.WithCancel(t.Context())
		err = s.Update(ctx, func(tx fleet.Tx) error {
			require.NoError(t, tx.Insert(newAgent("u1", "papi", "alice")))
			cancel()
			return tx.Insert(newAgent("u2", "sony", "alice"))
		})
		require.ErrorIs(t, err, context.Canceled)
		requireEmpty(t, s)
		addAgent(t, s)
	}},

	{"waiting for another update ends with the context", func(t *testing.T, s fleet.Store) {
		update(t, s, func(fleet.Tx) error {
			ctx, cancel := context.WithCancel(t.Context())
			result := make(chan error, 1)
			go func() {
				result <- s.Update(ctx, func(fleet.Tx) error { // a store may run it at the same time
					<-ctx.Done()
					return ctx.Err()
				})
			}()
			cancel()
			require.ErrorIs(t, <-result, context.Canceled)
			return nil
		})
	}},

	{"a transaction ends with its function", func(t *testing.T, s fleet.Store) {
		var endedTx fleet.Tx
		update(t, s, func(tx fleet.Tx) error { endedTx = tx; return nil })
		requireInternal(t, endedTx.Insert(newAgent("u1", "papi", "alice")))
		_, err := endedTx.Agents(fleet.AgentFilter{Name: "papi"})
		requireInternal(t, err)
		requireEmpty(t, s)
	}},

	{"close waits for transactions", func(t *testing.T, s fleet.Store) {
		inside, closing, closed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		updated := make(chan error, 1)
		go func() {
			updated <- s.Update(t.Context(), func(tx fleet.Tx) error {
				close(inside)
				<-closing
				select {
				case <-closed:
					t.Error("the store must not close during a transaction")
				default:
				}
				return tx.Insert(newAgent("u1", "papi", "alice"))
			})
		}()
		<-inside
		go func() {
			close(closing)
			closed <- s.Close()
		}()
		require.NoError(t, <-updated)
		require.NoError(t, <-closed)
	}},

	{"a closed store returns errors", func(t *testing.T, s fleet.Store) {
		require.NoError(t, s.Close())
		require.NoError(t, s.Close(), "closing twice must not be an error")
		requireInternal(t, s.Update(t.Context(), func(fleet.Tx) error { return nil }))
		requireInternal(t, s.View(t.Context(), func(fleet.ReadTx) error { return nil }))
		_, err := s.LastSeq(t.Context())
		requireInternal(t, err)
		_, err = s.AcquireLease(t.Context(), "k", "me", 0)
		requireInternal(t, err)
		requireInternal(t, s.ReleaseLease(t.Context(), "k", "me"))
		_, cancel := s.Subscribe()
		cancel()
	}},
}

// requireEmpty requires that the store has no live agents and no events.
func requireEmpty(t tb, s fleet.Store) {
	t.Helper()
	require.Empty(t, read(t, s, liveAgents))
	require.Zero(t, read(t, s, fleet.ReadTx.LastSeq))
}
