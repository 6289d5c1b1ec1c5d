package state

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fleet/internal/fleet"
	"fleet/internal/store/sqlite/sqlitetest"
)

// countingStore counts the agents that are loaded by their uids.
type countingStore struct {
	fleet.Store
	loaded int
}

type countingTx struct {
	fleet.ReadTx
	counter *countingStore
}

func (s *countingStore) View(ctx context.Context, fn func(fleet.ReadTx) error) error {
	return s.Store.View(ctx, func(tx fleet.ReadTx) error { return fn(countingTx{tx, s}) })
}

func (t countingTx) AgentViews(f fleet.AgentViewFilter) ([]*fleet.AgentView, error) {
	t.counter.loaded += len(f.UIDs)
	return t.ReadTx.AgentViews(f)
}

func newCountingStore(t *testing.T) *countingStore {
	store, err := sqlitetest.Open(t.Context(), filepath.Join(t.TempDir(), "fleet.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return &countingStore{Store: store}
}

func newAgent(i int) *fleet.Agent {
	now := time.Now().UTC()
	return &fleet.Agent{
		UID: fmt.Sprint("u", i), Name: fmt.Sprint("agent-", i), Owner: "alice", Place: "fake", State: fleet.StatePending, Desired: fleet.DesiredRunning,
		CreatedAt: now, UpdatedAt: now,
	}
}

// setReason sets the StateReason of the agent, and appends an event. It inserts the agent if the store does not have it.
func setReason(tx fleet.Tx, a *fleet.Agent, reason string) error {
	old, err := tx.Agent(a.UID)
	if err != nil {
		return err
	}
	if old == nil {
		if err := tx.Insert(a); err != nil {
			return err
		}
	} else {
		*a = *old
	}
	a.StateReason = reason
	if err := tx.Update(a); err != nil {
		return err
	}
	return tx.Append(a.Event(fleet.EventAgentChanged, time.Now(), reason))
}

// TestAgentsLeasedElsewhereAreLoadedWhenNeeded changes agents while another process has their leases. The snapshot loads them only
// if they are needed.
func TestAgentsLeasedElsewhereAreLoadedWhenNeeded(t *testing.T) {
	t.Parallel()
	store := newCountingStore(t)
	s := newSnapshot(store, newLastSeqReader(store), "me")
	agent1 := newAgent(1)
	set := func(i int, reason string) {
		require.NoError(t, store.Update(t.Context(), func(tx fleet.Tx) error { return setReason(tx, newAgent(i), reason) }))
	}
	set(1, "created")
	require.NoError(t, s.Refresh(t.Context()))
	for i := range 4 {
		_, err := store.AcquireLease(t.Context(), fleet.AgentLeasePrefix+newAgent(i).UID, "other", time.Hour)
		require.NoError(t, err)
	}
	requireLoads := func(want int, refresh func(context.Context) error) {
		t.Helper()
		store.loaded = 0
		require.NoError(t, refresh(t.Context()))
		require.Equal(t, want, store.loaded)
	}
	named := func(name string) func(context.Context) error {
		return func(ctx context.Context) error { return s.RefreshNamed(ctx, name) }
	}

	set(1, "first")
	set(2, "new")
	requireLoads(0, s.RefreshOwn)
	require.Equal(t, "created", s.Get(agent1.UID).StateReason)
	require.Nil(t, s.Get("u2"))

	requireLoads(1, func(ctx context.Context) error { return s.RefreshAgents(ctx, agent1.UID) })
	require.Equal(t, "first", s.Get(agent1.UID).StateReason)
	requireLoads(1, named("AGENT-2"))
	require.NotNil(t, s.Get("u2"))
	requireLoads(0, named("agent-2"))

	set(1, "second")
	set(3, "new")
	requireLoads(2, named("agent-1")) // agent-3 is not known, so it could have the name
	set(1, "third")
	requireLoads(0, s.RefreshOwn)
	requireLoads(1, s.Refresh)
	require.Equal(t, "third", s.Get(agent1.UID).StateReason)
	require.Len(t, s.All(), 3)
	requireLoads(0, s.Refresh)

	set(1, "fourth")
	requireLoads(0, s.RefreshReleased)
	set(1, "fifth")
	requireLoads(0, s.RefreshOwn)
	require.NoError(t, store.ReleaseLease(t.Context(), fleet.AgentLeasePrefix+agent1.UID, "other"))
	requireLoads(0, s.RefreshOwn)
	requireLoads(1, s.RefreshReleased)
	require.Equal(t, "fifth", s.Get(agent1.UID).StateReason)
	set(1, "sixth")
	requireLoads(1, s.RefreshOwn)
}

// TestAgentsLeasedElsewhereAreNotMissed changes and leases agents at random. After each refresh, the agents that the
// refresh had to load must be the same in the snapshot and in the store.
func TestAgentsLeasedElsewhereAreNotMissed(t *testing.T) {
	t.Parallel()
	store := newCountingStore(t)
	rapid.Check(t, func(rt *rapid.T) {
		s := newSnapshot(store, newLastSeqReader(store), "me")
		agent := rapid.IntRange(0, 9)
		storedView := func(uid string) (v *fleet.AgentView) {
			require.NoError(rt, store.Store.View(t.Context(), func(tx fleet.ReadTx) (err error) {
				v, err = ReadAgentView(tx, uid)
				return err
			}))
			if v != nil && !v.DeletedAt.IsZero() {
				return nil
			}
			return v
		}
		rt.Repeat(map[string]func(*rapid.T){
			"change": func(rt *rapid.T) {
				reason := fmt.Sprint(rapid.Int().Draw(rt, "reason"))
				require.NoError(rt, store.Update(t.Context(), func(tx fleet.Tx) error {
					return setReason(tx, newAgent(agent.Draw(rt, "agent")), reason)
				}))
			},
			"lease": func(rt *rapid.T) {
				owner := rapid.SampledFrom([]string{"me", "other"}).Draw(rt, "owner")
				_, err := store.AcquireLease(t.Context(), fleet.AgentLeasePrefix+newAgent(agent.Draw(rt, "agent")).UID, owner, time.Hour)
				require.NoError(rt, err)
			},
			"release": func(rt *rapid.T) {
				uid := newAgent(agent.Draw(rt, "agent")).UID
				require.NoError(rt, store.ReleaseLease(t.Context(), fleet.AgentLeasePrefix+uid, "me"))
				require.NoError(rt, store.ReleaseLease(t.Context(), fleet.AgentLeasePrefix+uid, "other"))
			},
			"refresh own": func(rt *rapid.T) { require.NoError(rt, s.RefreshOwn(t.Context())) },
			"refresh one": func(rt *rapid.T) {
				uid := newAgent(agent.Draw(rt, "agent")).UID
				require.NoError(rt, s.RefreshAgents(t.Context(), uid))
				require.Equal(rt, storedView(uid), s.Get(uid))
			},
			"refresh named": func(rt *rapid.T) {
				a := newAgent(agent.Draw(rt, "agent"))
				require.NoError(rt, s.RefreshNamed(t.Context(), a.Name))
				v, _ := s.Find(fleet.Principal{Name: a.Owner}, a.Name, "")
				require.Equal(rt, storedView(a.UID), v)
			},
			"refresh all": func(rt *rapid.T) {
				require.NoError(rt, s.Refresh(t.Context()))
				for i := range 10 {
					uid := newAgent(i).UID
					require.Equal(rt, storedView(uid), s.Get(uid))
				}
			},
		})
	})
}
