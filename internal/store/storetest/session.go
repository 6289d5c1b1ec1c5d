package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

var sessionCases = []testCase{
	{"every field comes back after an insert and after an update", func(t *testing.T, s fleet.Store) {
		full := newSession("s1", "alice", "web-search")
		insertRows(t, s, full)
		require.EqualValues(t, 1, full.Revision)
		require.Equal(t, full, getSession(t, s, "s1"))
		full.Turns, full.UsedAt, full.ClosedAt, full.CloseReason = 2, noon.Add(time.Hour), noon.Add(2*time.Hour), "it was idle"
		updateRows(t, s, full)
		require.EqualValues(t, 2, full.Revision)
		require.Equal(t, full, getSession(t, s, "s1"))
	}},

	{"a missing session is nil, and cannot be updated", func(t *testing.T, s fleet.Store) {
		require.Nil(t, getSession(t, s, "s1"))
		require.Nil(t, sessionByKey(t, s, "alice", ""))
		requireInternal(t, tryUpdate(t, s, newSession("s1", "alice", "")))
	}},

	{"a key is unique among open sessions", func(t *testing.T, s fleet.Store) {
		first, second, bobs := newSession("s1", "alice", "k"), newSession("s2", "alice", "k"), newSession("s3", "bob", "k")
		other := newSession("s4", "alice", "k")
		other.Toolset = fleet.ToolsetSubagents
		insertRows(t, s, first, bobs, other)
		require.Equal(t, fleet.ReasonSessionExists, fleet.ReasonOf(tryInsert(t, s, second)))
		require.Equal(t, first, sessionByKey(t, s, "alice", "k"))
		first.ClosedAt = noon
		updateRows(t, s, first)
		require.Nil(t, sessionByKey(t, s, "alice", "k"))
		insertRows(t, s, second)
		require.Equal(t, second, sessionByKey(t, s, "alice", "k"))
		for _, id := range []string{"s5", "s6"} { // many sessions can have no key
			insertRows(t, s, newSession(id, "alice", ""))
		}
	}},

	{"the open sessions of an owner, the last used first", func(t *testing.T, s fleet.Store) {
		a, b, c, bobs, other := newSession("a", "alice", ""), newSession("b", "alice", ""), newSession("c", "alice", ""),
			newSession("d", "bob", ""), newSession("e", "alice", "")
		a.UsedAt, c.ClosedAt, other.Toolset = noon.Add(time.Hour), noon, fleet.ToolsetSubagents
		bobs.UsedAt = noon.Add(time.Minute)
		insertRows(t, s, a, b, c, bobs, other)
		require.Equal(t, []*fleet.Session{a, b}, openSessions(t, s, "alice"))
		require.Equal(t, []*fleet.Session{a, bobs, b}, openSessions(t, s, ""))
		require.Empty(t, openSessions(t, s, "carol"))
	}},

	{"the last turns of a session, oldest first", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		for i, id := range []string{"t1", "t2", "t3"} {
			task := fullTask(id, a)
			task.CreatedAt = noon.Add(time.Duration(i) * time.Second)
			insertRows(t, s, task)
		}
		other := fullTask("t4", a)
		other.SessionID = ""
		insertRows(t, s, other)
		turns := func(id string, limit int) []string {
			return taskIDs(read(t, s, func(tx fleet.ReadTx) ([]*fleet.Task, error) { return tx.SessionTasks(id, limit) }))
		}
		require.Equal(t, []string{"t1", "t2", "t3"}, turns("s1", 10))
		require.Equal(t, []string{"t2", "t3"}, turns("s1", 2))
		require.Empty(t, turns("s1", 0))
		require.Empty(t, turns("", 10))
		require.Empty(t, turns("s2", 10))
	}},
}

func newSession(id, owner, key string) *fleet.Session {
	return &fleet.Session{
		ID: id, Toolset: fleet.ToolsetSessions, Owner: owner, Name: "Jörg's", Key: key, Agent: "echo.yaml", Source: "files",
		Title: "what to do", AgentUID: "u1", Turns: 1, CreatedAt: noon, UsedAt: noon.Add(time.Second),
	}
}

func getSession(t tb, s fleet.Store, id string) *fleet.Session {
	t.Helper()
	return read(t, s, func(tx fleet.ReadTx) (*fleet.Session, error) { return tx.Session(fleet.SessionKey{ID: id}) })
}

func sessionByKey(t tb, s fleet.Store, owner, key string) *fleet.Session {
	t.Helper()
	return read(t, s, func(tx fleet.ReadTx) (*fleet.Session, error) {
		return tx.Session(fleet.SessionKey{Toolset: fleet.ToolsetSessions, Owner: owner, Key: key})
	})
}

func openSessions(t tb, s fleet.Store, owner string) []*fleet.Session {
	t.Helper()
	return read(t, s, func(tx fleet.ReadTx) ([]*fleet.Session, error) {
		return tx.Sessions(fleet.ToolsetSessions, owner)
	})
}
