package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

var pruneCases = []testCase{
	{"old rows are removed, others stay", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		at := func(d time.Duration) time.Time { return noon.Add(d) }
		for i, d := range []time.Duration{-3, -2, -1, 0, 1} {
			e := newEvent(fleet.EventAgentChanged, a, "")
			e.Time = at(d * time.Hour)
			r := &fleet.Request{Principal: "alice", ID: id("r", i), Method: "M", BodyHash: "h", CreatedAt: at(d * time.Hour)}
			update(t, s, func(tx fleet.Tx) error {
				require.NoError(t, tx.Append(e))
				return tx.Insert(r)
			})
		}
		ofAgent, revoked, mine := newToken("agent/1", "h1"), newToken("agent/2", "h2"), newToken("alice", "h3")
		ofAgent.AgentUID, revoked.AgentUID = "u1", "u1"
		revoked.RevokedAt, mine.RevokedAt = at(-time.Hour), at(-time.Hour)
		insertRows(t, s, ofAgent, revoked, mine)
		require.Equal(t, 5, pruneHistory(t, s, noon, 2), "at most two rows of each kind must be removed")
		require.Equal(t, 2, pruneHistory(t, s, noon, 2))
		require.Zero(t, pruneHistory(t, s, noon, 2))
		left := listEvents(t, s, fleet.EventFilter{}, 0, 10)
		require.Len(t, left, 2)
		require.Equal(t, noon, left[0].Time)
		require.Nil(t, getRequest(t, s, "alice", id("r", 2)))
		require.NotNil(t, getRequest(t, s, "alice", id("r", 3)))
		require.Equal(t, []*fleet.Token{mine}, read(t, s, tokens))
		require.Equal(t, ofAgent, tokenByHash(t, s, ofAgent.Hash))
		require.Nil(t, tokenByHash(t, s, revoked.Hash))
	}},

	{"the log continues after its last number", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		for range 3 {
			appendEvent(t, s)
		}
		before, err := s.LastSeq(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, pruneHistory(t, s, noon.Add(1000*time.Hour), 10), "the newest event must stay")
		after, err := s.LastSeq(t.Context())
		require.NoError(t, err)
		require.Equal(t, before, after)
		e := newEvent(fleet.EventAgentChanged, a, "")
		update(t, s, func(tx fleet.Tx) error { return tx.Append(e) })
		require.Greater(t, read(t, s, fleet.ReadTx.LastSeq), before)
		require.Equal(t, []string{a.UID}, changedUIDs(t, s, before))
	}},

	{"leases that expired long ago are removed", func(t *testing.T, s fleet.Store) {
		old := takeLease(t, s, "old", "one", 0)
		held := takeLease(t, s, "held", "one", time.Hour)
		require.Equal(t, 1, pruneHistory(t, s, time.Now().Add(time.Minute), 10))
		require.Equal(t, map[string]int64{"held": held}, renewLeases(t, s, "one", 0, "held", "old"))
		require.Greater(t, takeLease(t, s, "old", "two", time.Hour), old)
	}},

	{"replicas whose last heartbeat is old are removed", func(t *testing.T, s fleet.Store) {
		a, deleted := newAgent("u1", "one", "alice"), newAgent("u2", "two", "alice")
		a.Place, deleted.Place, deleted.DeletedAt = "local@works", "local@old", noon
		insertRows(t, s, a, deleted)
		record := func(name string) bool {
			ok, err := s.RecordHeartbeat(t.Context(), fleet.Replica{Name: name, Machine: "m"}, true)
			require.NoError(t, err)
			return ok
		}
		for _, name := range []string{"works", "runs", "old", "forgotten"} {
			require.True(t, record(name))
		}
		takeLease(t, s, fleet.ReplicaLeasePrefix+"runs", "one", 2*time.Hour)
		takeLease(t, s, fleet.ReplicaLeasePrefix+"old", "one", time.Minute)
		require.NoError(t, s.ForgetReplica(t.Context(), "forgotten"))
		require.Zero(t, pruneHistory(t, s, time.Now().Add(-time.Hour), 10))
		require.Equal(t, 2, pruneHistory(t, s, time.Now().Add(time.Hour), 10), "the rows of a replica and its lease must be removed")
		left, err := s.Replicas(t.Context())
		require.NoError(t, err)
		require.Len(t, left, 2)
		require.Equal(t, []string{"runs", "works"}, []string{left[0].Name, left[1].Name})
		require.False(t, record("forgotten"), "a forgotten replica must not be recorded again")
		require.True(t, record("old"))
	}},

	{"old plans of bulk operations are removed", func(t *testing.T, s fleet.Store) {
		put := func(kind fleet.ResourceKind, name string, at time.Time) {
			update(t, s, func(tx fleet.Tx) error {
				return fleet.PutResource(tx, kind, name, fleet.BulkPlan{ID: name, PlannedAtMicros: at.UnixMicro(), Items: []fleet.BulkItem{{AgentName: "papi\x00"}}})
			})
		}
		put(fleet.BulkKind, "old", noon.Add(-time.Microsecond))
		put(fleet.BulkKind, "new", noon)
		put(fleet.PoolKind, "old", noon.Add(-time.Hour))
		require.Equal(t, 1, pruneHistory(t, s, noon, 10))
		require.Zero(t, pruneHistory(t, s, noon, 10))
		for _, left := range []fleet.ResourceFilter{{Kind: fleet.BulkKind}, {Kind: fleet.PoolKind}} {
			rows := read(t, s, func(tx fleet.ReadTx) ([]*fleet.Resource, error) { return tx.Resources(left) })
			require.Len(t, rows, 1)
		}
	}},
}

// requirePruned calls Prune once for each number of want, and requires that the call removes this number of rows.
func requirePruned(t tb, s fleet.Store, kind fleet.PruneKind, before time.Time, limit int, want ...int) {
	t.Helper()
	for _, removed := range want {
		n, err := s.Prune(t.Context(), kind, before, limit)
		require.NoError(t, err)
		require.Equal(t, removed, n)
	}
}

func pruneHistory(t tb, s fleet.Store, before time.Time, limit int) int {
	t.Helper()
	n, err := s.Prune(t.Context(), fleet.PruneHistory, before, limit)
	require.NoError(t, err)
	return n
}
