package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

var agentCases = []testCase{
	{"every field comes back", func(t *testing.T, s fleet.Store) {
		full := newAgent("u1", "Papi", "alice")
		full.DeletedAt = noon.Add(time.Hour)
		bare := &fleet.Agent{UID: "u2", Name: "b", State: fleet.StatePending, Desired: fleet.DesiredRunning}
		words := newAgent("u3", "ünïcode-名前", "Jörg 🚀")
		words.Spec, words.Metadata = "日本語 'quotes' \"more\" -- ; \\ \t\r\n end", map[string]string{}
		for _, a := range []*fleet.Agent{full, bare, words} {
			want := *a
			insertRows(t, s, a)
			require.Equal(t, int64(1), a.Revision)
			want.Revision = 1
			got := getAgent(t, s, a.UID)
			require.Equal(t, &want, got)
		}
	}},

	{"times are kept to the microsecond, in UTC", func(t *testing.T, s fleet.Store) {
		a := newAgent("u1", "papi", "alice")
		a.CreatedAt = time.Date(2025, 7, 1, 12, 0, 0, 123456789, time.FixedZone("", 7200))
		a.UpdatedAt = time.Date(1969, 12, 31, 23, 59, 59, 999999000, time.UTC)
		a.RetryAt = time.Unix(0, 0) // this is not the zero time
		insertRows(t, s, a)
		got := getAgent(t, s, "u1")
		require.Equal(t, time.Date(2025, 7, 1, 10, 0, 0, 123456000, time.UTC), got.CreatedAt)
		require.Equal(t, a.UpdatedAt, got.UpdatedAt)
		require.Equal(t, time.Unix(0, 0).UTC(), got.RetryAt)
		require.True(t, got.DeletedAt.IsZero())
	}},

	{"names are unique per owner, in any case", func(t *testing.T, s fleet.Store) {
		addAgent(t, s)
		for _, name := range []string{"papi", "PAPI", "Papi"} {
			err := tryInsert(t, s, newAgent("u2", name, "alice"))
			requireReason(t, err, fleet.ReasonAgentExists, name)
		}
		insertRows(t, s, newAgent("u2", "Papi", "bob"))
	}},

	{"a deleted agent's name is free again", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		a.State, a.DeletedAt = fleet.StateDeleted, noon
		updateRows(t, s, a)
		insertRows(t, s, newAgent("u2", "PAPI", "alice"))
		view(t, s, func(tx fleet.ReadTx) error {
			found, err := tx.Agents(fleet.AgentFilter{Name: "papi", Owner: "alice"})
			require.NoError(t, err)
			require.Equal(t, []string{"u2"}, uids(found))
			old, err := tx.Agent(a.UID)
			require.NoError(t, err)
			require.Equal(t, a, old)
			return nil
		})
		a.DeletedAt = time.Time{}
		requireReason(t, tryUpdate(t, s, a), fleet.ReasonAgentExists, "papi")
	}},

	{"a uid is used only once", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		requireInternal(t, tryInsert(t, s, newAgent(a.UID, "sony", "alice")))
	}},

	{"one of many concurrent creations succeeds", func(t *testing.T, s fleet.Store) {
		errs := runConcurrently(50, func(i int) error {
			return tryInsert(t, s, newAgent(id("u", i), "papi", "alice"))
		})
		requireReasons(t, errs, 49, fleet.ReasonAgentExists, "papi")
		require.Len(t, read(t, s, liveAgents), 1)
	}},

	{"agents are found by name in any case, and by owner", func(t *testing.T, s fleet.Store) {
		insertRows(t, s, newAgent("u-0000", "Papi", "carol"), newAgent("u-0001", "Papi", "alice"), newAgent("u-0002", "Papi", "bob"), newAgent("other", "papi2", "alice"))
		view(t, s, func(tx fleet.ReadTx) error {
			found, err := tx.Agents(fleet.AgentFilter{Name: "pAPI"})
			require.NoError(t, err)
			require.Equal(t, []string{"u-0001", "u-0002", "u-0000"}, uids(found))
			found, err = tx.Agents(fleet.AgentFilter{Name: "PAPI", Owner: "bob"})
			require.NoError(t, err)
			require.Equal(t, []string{"u-0002"}, uids(found))
			found, err = tx.Agents(fleet.AgentFilter{Name: "papi", Owner: "Bob"})
			require.NoError(t, err)
			require.Empty(t, found, "owners are case-sensitive")
			found, err = tx.Agents(fleet.AgentFilter{Name: "p%"})
			require.NoError(t, err)
			require.Empty(t, found, "a name is not a pattern")
			return nil
		})
	}},

	{"the newest agent of a workspace is found, also a deleted one", func(t *testing.T, s fleet.Store) {
		byWorkspace := func(id string) *fleet.Agent {
			return read(t, s, func(tx fleet.ReadTx) (*fleet.Agent, error) {
				return fleet.First(tx.Agents(fleet.AgentFilter{Place: "local", WorkspaceID: id}))
			})
		}
		require.Nil(t, byWorkspace("ws"))
		var all []*fleet.Agent
		for i, created := range []time.Duration{2, 1, 3, 3} { // of two agents with the same time, the one that was added later is newer
			a := newAgent(id("u", i), id("a", i), "alice")
			a.WorkspaceID, a.CreatedAt = "ws", noon.Add(created*time.Second)
			if i == 3 {
				a.DeletedAt = noon
			}
			all = append(all, a)
		}
		other, none := newAgent("other", "other", "alice"), newAgent("none", "none", "alice")
		none.WorkspaceID = ""
		insertRows(t, s, other, none, all[0])
		require.Equal(t, all[0], byWorkspace("ws"))
		insertRows(t, s, all[1])
		require.Equal(t, all[0], byWorkspace("ws"))
		insertRows(t, s, all[2], all[3])
		require.Equal(t, all[3], byWorkspace("ws"))
		require.Nil(t, byWorkspace("WS"))
		require.Nil(t, read(t, s, func(tx fleet.ReadTx) (*fleet.Agent, error) {
			return fleet.First(tx.Agents(fleet.AgentFilter{Place: "coder", WorkspaceID: "ws"}))
		}), "a workspace of another place must not match")
		require.Nil(t, byWorkspace(""), "the empty workspace id must not match an agent")
	}},

	{"agents are listed by name and owner, without deleted ones", func(t *testing.T, s fleet.Store) {
		gone := newAgent("u5", "aaa", "alice")
		gone.DeletedAt = noon
		insertRows(t, s, newAgent("u1", "Zed", "alice"), newAgent("u2", "bob", "carol"), newAgent("u3", "Bob", "alice"), newAgent("u4", "alf", "carol"), gone)
		require.Equal(t, []string{"u4", "u3", "u2", "u1"}, uids(read(t, s, liveAgents)))
	}},

	{"an update writes every field and raises the revision", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		b := newAgent(a.UID, "papa", "bob")
		b.Project, b.Role, b.Spec, b.WorkspaceID, b.Location, b.Metadata = "P", "R", "S", "W", "L", nil
		b.State, b.StateReason, b.Desired = fleet.StateFailed, "oh", fleet.DesiredStopped
		b.RestartsRequested, b.RestartsDone, b.Attempts, b.RetryAt = 9, 8, 7, time.Time{}
		b.CreatedAt, b.UpdatedAt, b.DeletedAt = noon.Add(1*time.Hour), noon.Add(2*time.Hour), noon.Add(3*time.Hour)
		b.Rules = nil
		updateRows(t, s, b)
		require.Equal(t, int64(2), b.Revision)
		require.Equal(t, b, getAgent(t, s, a.UID))
	}},

	{"shared agents are found, also deleted ones", func(t *testing.T, s fleet.Store) {
		one, two, gone := newAgent("u1", "papi", "alice"), newAgent("u2", "sony", "bob"), newAgent("u3", "aaa", "alice")
		one.Shares = append(one.Shares, fleet.Share{Grantee: fleet.Grantee{Person: "Jörg"}, Access: fleet.AccessView, By: "root", At: noon})
		two.Shares, gone.DeletedAt = nil, noon
		shared := func() []*fleet.Agent {
			return read(t, s, func(tx fleet.ReadTx) ([]*fleet.Agent, error) { return tx.Agents(fleet.AgentFilter{Shared: true}) })
		}
		require.Empty(t, shared())
		insertRows(t, s, gone, two, one)
		require.Equal(t, []*fleet.Agent{one, gone}, shared())
		one.Shares = nil
		updateRows(t, s, one)
		require.Equal(t, []*fleet.Agent{gone}, shared())
	}},

	{"an update of an unknown agent fails", func(t *testing.T, s fleet.Store) {
		missing := newAgent("u1", "papi", "alice")
		requireInternal(t, s.Update(t.Context(), func(tx fleet.Tx) error {
			return errors.Join(tx.Append(newEvent(fleet.EventAgentChanged, missing, "")), tx.Update(missing))
		}))
		require.Empty(t, listEvents(t, s, fleet.EventFilter{}, 0, 10))
		requireEmpty(t, s)
		require.Nil(t, getAgent(t, s, "u1"))
	}},

	{"every known state can be stored, but no other", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		write := func(state fleet.State, desired fleet.DesiredState) error {
			a.State, a.Desired = state, desired
			return tryUpdate(t, s, a)
		}
		for _, state := range fleet.States {
			for _, desired := range []fleet.DesiredState{fleet.DesiredRunning, fleet.DesiredStopped, fleet.DesiredDeleted} {
				require.NoError(t, write(state, desired))
			}
		}
		requireInternal(t, write("asleep", fleet.DesiredRunning))
		requireInternal(t, write(fleet.StateRunning, "asleep"))
	}},

	{"the newest agent with a name is found, also a deleted one", func(t *testing.T, s fleet.Store) {
		add := func(uid, owner string, after time.Duration, toolset fleet.Toolset) {
			a := newAgent(uid, "Papi", owner)
			a.Toolset, a.State, a.DeletedAt, a.CreatedAt = toolset, fleet.StateDeleted, noon, noon.Add(after)
			insertRows(t, s, a)
		}
		newest := func(name, owner string) string {
			a := read(t, s, func(tx fleet.ReadTx) (*fleet.Agent, error) {
				return fleet.First(tx.Agents(fleet.AgentFilter{Name: name, Owner: owner, Newest: true}))
			})
			if a == nil {
				return ""
			}
			return a.UID
		}
		require.Empty(t, newest("papi", ""))
		add("u1", "alice", 1*time.Second, fleet.ToolsetFleet)
		add("u3", "alice", 3*time.Second, fleet.ToolsetFleet)
		add("u2", "alice", 2*time.Second, fleet.ToolsetFleet)
		add("u4", "bob", 4*time.Second, fleet.ToolsetFleet)
		add("u5", "bob", 5*time.Second, fleet.ToolsetLifecycle)
		require.Equal(t, "u3", newest("PAPI", "alice"))
		require.Equal(t, "u4", newest("papi", ""))
		require.Empty(t, newest("papi", "carol"))
	}},

	{"the remains of an agent are kept until they are pruned", func(t *testing.T, s fleet.Store) {
		getRemains := func(uid string) (r *fleet.Remains) {
			view(t, s, func(tx fleet.ReadTx) error {
				without, err := tx.Remains(uid)
				require.NoError(t, err)
				if r, err = tx.RemainsWithBundle(uid); r != nil {
					short := *r
					short.Bundle = nil
					require.Equal(t, &short, without)
				}
				return err
			})
			return r
		}
		require.Nil(t, getRemains("u1"))
		put := func(uid string, r *fleet.Remains) {
			update(t, s, func(tx fleet.Tx) error { return tx.Put(uid, r) })
		}
		put("u1", &fleet.Remains{KeptAt: noon, LostWork: "it could not be reached"})
		require.Equal(t, &fleet.Remains{KeptAt: noon, LostWork: "it could not be reached"}, getRemains("u1"))
		put("u1", &fleet.Remains{KeptAt: noon.Add(time.Second), Bundle: []byte("a bundle")})
		put("u2", &fleet.Remains{KeptAt: noon.Add(-time.Second), Bundle: []byte("old")})
		require.Equal(t, &fleet.Remains{KeptAt: noon.Add(time.Second), Size: 8, Bundle: []byte("a bundle")}, getRemains("u1"))
		requirePruned(t, s, fleet.PrunePayloads, noon, 10, 1, 0)
		require.Nil(t, getRemains("u2"))
		require.NotNil(t, getRemains("u1"))
	}},
}

func getAgent(t tb, s fleet.Store, uid string) *fleet.Agent {
	t.Helper()
	return read(t, s, func(tx fleet.ReadTx) (*fleet.Agent, error) { return tx.Agent(uid) })
}

func uids(agents []*fleet.Agent) []string {
	var out []string
	for _, a := range agents {
		out = append(out, a.UID)
	}
	return out
}

// liveAgents returns the agents that are not deleted, sorted by name and owner.
func liveAgents(tx fleet.ReadTx) (all []*fleet.Agent, err error) {
	views, err := liveViews(tx)
	for _, v := range views {
		all = append(all, &v.Agent)
	}
	return all, err
}
