package storetest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/waittest"
)

var eventCases = []testCase{
	{"every field comes back", func(t *testing.T, s fleet.Store) {
		full := &fleet.Event{
			Time: noon, Type: fleet.EventTaskEnded, AgentUID: "u1", AgentName: "Papi", Owner: "Jörg", TaskID: "t1",
			Text: "日本語\n🚀 'x'", Status: "completed", Data: []byte(`{"type":"usage"}`),
		}
		bare := &fleet.Event{Type: fleet.EventAgentChanged}
		update(t, s, func(tx fleet.Tx) error {
			require.NoError(t, tx.Append(full))
			return tx.Append(bare)
		})
		got := listEvents(t, s, fleet.EventFilter{}, 0, 10)
		require.Positive(t, got[0].Seq)
		require.Greater(t, got[1].Seq, got[0].Seq)
		requireEvents(t, got, full, bare)
	}},

	{"large output, and output that is not text", func(t *testing.T, s fleet.Store) {
		a := newAgent("u1", "papi", "alice")
		big, odd := newEvent(fleet.EventTaskOutput, a, strings.Repeat("output\n", 1<<20)), newEvent(fleet.EventTaskOutput, a, "begin\x00\xff\xfeend")
		update(t, s, func(tx fleet.Tx) error {
			require.NoError(t, tx.Append(big))
			return tx.Append(odd)
		})
		got := listEvents(t, s, fleet.EventFilter{}, 0, 10)
		require.True(t, got[0].Text == big.Text)
		require.True(t, strings.HasPrefix(got[1].Text, "begin") && strings.HasSuffix(got[1].Text, "end"))
	}},

	{"an empty log", func(t *testing.T, s fleet.Store) {
		require.Empty(t, listEvents(t, s, fleet.EventFilter{}, 0, 10))
		require.Empty(t, lastEvents(t, s, fleet.EventFilter{}, 10))
		require.Zero(t, read(t, s, fleet.ReadTx.LastSeq))
		seq, err := s.LastSeq(t.Context())
		require.NoError(t, err)
		require.Zero(t, seq)
		require.Empty(t, changedUIDs(t, s, 0))
	}},

	{"LastSeq returns the Seq of the newest event", func(t *testing.T, s fleet.Store) {
		a := newAgent("u1", "papi", "alice")
		for range 5 {
			update(t, s, func(tx fleet.Tx) error { return tx.Append(newEvent(fleet.EventAgentChanged, a, "")) })
			newest := lastEvents(t, s, fleet.EventFilter{}, 1)[0].Seq
			seq, err := s.LastSeq(t.Context())
			require.NoError(t, err)
			require.Equal(t, newest, seq)
			require.Equal(t, newest, read(t, s, fleet.ReadTx.LastSeq))
		}
		require.ErrorIs(t, s.Update(t.Context(), func(tx fleet.Tx) error {
			_ = tx.Append(newEvent(fleet.EventAgentChanged, a, ""))
			return errTest
		}), errTest)
		seq, err := s.LastSeq(t.Context())
		require.NoError(t, err)
		require.Equal(t, listEvents(t, s, fleet.EventFilter{}, 0, 10)[4].Seq, seq)
	}},

	{"filters", func(t *testing.T, s fleet.Store) {
		log := appendSeed(t, s)
		for _, c := range []struct {
			name string
			f    fleet.EventFilter
			want func(e fleet.Event) bool
		}{
			{"none", fleet.EventFilter{}, func(fleet.Event) bool { return true }},
			{"owner", fleet.EventFilter{Owner: "alice"}, func(e fleet.Event) bool { return e.Owner == "alice" }},
			{"owner and shared agents", fleet.EventFilter{Owner: "bob", SharedUIDs: []string{"u1", "u9"}}, func(e fleet.Event) bool { return e.Owner == "bob" || e.AgentUID == "u1" }},
			{"name in any case", fleet.EventFilter{AgentName: "PAPI"}, func(e fleet.Event) bool { return strings.EqualFold(e.AgentName, "papi") }},
			{"uid", fleet.EventFilter{AgentUID: "u1"}, func(e fleet.Event) bool { return e.AgentUID == "u1" }},
			{"task", fleet.EventFilter{TaskID: "t2"}, func(e fleet.Event) bool { return e.TaskID == "t2" }},
			{"output of one task", fleet.EventFilter{WithoutOutput: true, OutputOf: []string{"t1"}}, func(e fleet.Event) bool { return e.Type != fleet.EventTaskOutput || e.TaskID == "t1" }},
			{"output of two tasks", fleet.EventFilter{WithoutOutput: true, OutputOf: []string{"t2", "t1"}}, func(e fleet.Event) bool {
				return e.Type != fleet.EventTaskOutput || e.TaskID == "t1" || e.TaskID == "t2"
			}},
			{"no output", fleet.EventFilter{WithoutOutput: true}, func(e fleet.Event) bool { return e.Type != fleet.EventTaskOutput }},
			{"a type", fleet.EventFilter{Types: []fleet.EventType{fleet.EventTaskOutput}}, func(e fleet.Event) bool { return e.Type == fleet.EventTaskOutput }},
			{"types", fleet.EventFilter{Types: []fleet.EventType{fleet.EventAgentCreated, fleet.EventTaskEnded}}, func(e fleet.Event) bool {
				return e.Type == fleet.EventAgentCreated || e.Type == fleet.EventTaskEnded
			}},
			{"owner and name", fleet.EventFilter{Owner: "bob", AgentName: "papi"}, func(e fleet.Event) bool { return e.AgentUID == "u3" }},
			{
				"everything",
				fleet.EventFilter{Owner: "alice", AgentName: "papi", AgentUID: "u1", TaskID: "t1", Types: []fleet.EventType{fleet.EventTaskOutput}},
				func(e fleet.Event) bool { return e.TaskID == "t1" && e.Type == fleet.EventTaskOutput },
			},
			{"of nobody", fleet.EventFilter{Owner: "Alice"}, func(fleet.Event) bool { return false }},
		} {
			var want []fleet.Event
			for _, e := range log {
				if c.want(e) {
					want = append(want, e)
				}
			}
			require.Equal(t, want, listEvents(t, s, c.f, 0, 1000), c.name)
			require.Equal(t, want, lastEvents(t, s, c.f, 1000), c.name)
			if len(want) < 3 {
				continue
			}
			require.Equal(t, want[1:3], listEvents(t, s, c.f, want[0].Seq, 2), c.name)
			require.Equal(t, want[len(want)-2:], lastEvents(t, s, c.f, 2), c.name)
			require.Equal(t, want[len(want)-3:len(want)-1], eventsBefore(t, s, c.f, want[len(want)-1].Seq, 2), c.name)
			require.Empty(t, listEvents(t, s, c.f, log[len(log)-1].Seq, 10), c.name)
		}
	}},

	{"limits, and paging", func(t *testing.T, s fleet.Store) {
		log := appendSeed(t, s)
		require.Empty(t, listEvents(t, s, fleet.EventFilter{}, 0, 0))
		require.Empty(t, lastEvents(t, s, fleet.EventFilter{}, 0))
		require.Empty(t, listEvents(t, s, fleet.EventFilter{}, 1<<40, 10))
		require.Equal(t, log, listEvents(t, s, fleet.EventFilter{}, -1, 1_000_000))
		var paged []fleet.Event
		for after := int64(0); ; {
			page := listEvents(t, s, fleet.EventFilter{}, after, 7)
			if len(page) == 0 {
				break
			}
			paged, after = append(paged, page...), page[len(page)-1].Seq
		}
		require.Equal(t, log, paged)
	}},

	{"changed agents have events other than output", func(t *testing.T, s fleet.Store) {
		a, b, c := newAgent("u1", "a", "alice"), newAgent("u2", "b", "alice"), newAgent("u3", "c", "alice")
		var seqs []int64
		for _, e := range []*fleet.Event{
			newEvent(fleet.EventAgentCreated, a, ""), newEvent(fleet.EventAgentCreated, b, ""), newEvent(fleet.EventTaskOutput, c, "x"),
			newEvent(fleet.EventAgentChanged, a, ""), newEvent(fleet.EventTaskOutput, b, "x"), newEvent(fleet.EventTaskEnded, b, ""),
		} {
			update(t, s, func(tx fleet.Tx) error { return tx.Append(e) })
			seqs = append(seqs, read(t, s, fleet.ReadTx.LastSeq))
		}
		require.ElementsMatch(t, []string{"u1", "u2"}, changedUIDs(t, s, 0))
		require.ElementsMatch(t, []string{"u1", "u2"}, changedUIDs(t, s, seqs[1]))
		require.ElementsMatch(t, []string{"u2"}, changedUIDs(t, s, seqs[3]))
		require.Empty(t, changedUIDs(t, s, seqs[5]))
	}},

	{"a changed agent is leased elsewhere while another owner has its lease", func(t *testing.T, s fleet.Store) {
		for _, uid := range []string{"u1", "u2", "u3"} {
			update(t, s, func(tx fleet.Tx) error {
				return tx.Append(newEvent(fleet.EventAgentChanged, newAgent(uid, uid, "alice"), ""))
			})
		}
		last := read(t, s, fleet.ReadTx.LastSeq)
		lease := func(uid, owner string, ttl time.Duration) {
			epoch, err := s.AcquireLease(t.Context(), fleet.AgentLeasePrefix+uid, owner, ttl)
			require.NoError(t, err)
			require.NotZero(t, epoch)
		}
		lease("u1", "me", time.Hour)
		lease("u2", "other", time.Hour)
		lease("u3", "other", -time.Second)
		all := []fleet.ChangedAgent{{UID: "u1"}, {UID: "u2", LeasedElsewhere: true}, {UID: "u3"}}
		require.ElementsMatch(t, all, changedAgents(t, s, 0, nil, "me"))
		require.NoError(t, s.ReleaseLease(t.Context(), fleet.AgentLeasePrefix+"u2", "other"))
		all[1].LeasedElsewhere = false
		require.ElementsMatch(t, all, changedAgents(t, s, 0, nil, "me"))
		require.Empty(t, changedAgents(t, s, last, nil, "me"))
		lease("u4", "other", time.Hour)
		require.ElementsMatch(t, []fleet.ChangedAgent{{UID: "u1"}, {UID: "u4", LeasedElsewhere: true}}, changedAgents(t, s, last, []string{"u1", "u4"}, "me"))
		require.Len(t, changedAgents(t, s, 0, []string{"u1"}, "me"), 3)
	}},

	{"a reader of the log misses nothing during concurrent writes", func(t *testing.T, s fleet.Store) {
		const writers, each = 8, 25
		signal, cancel := s.Subscribe()
		defer cancel()
		errs := make(chan []error, 1)
		go func() {
			errs <- runConcurrently(writers, func(i int) error {
				for n := range each {
					if err := s.Update(context.WithoutCancel(t.Context()), func(tx fleet.Tx) error {
						return tx.Append(newEvent(fleet.EventTaskOutput, newAgent(id("u", i), "a", "alice"), id("", n)))
					}); err != nil {
						return err
					}
				}
				return nil
			})
		}()
		var got []fleet.Event
		timeout := time.After(waittest.Limit)
		for after := int64(0); len(got) < writers*each; {
			page := listEvents(t, s, fleet.EventFilter{}, after, 10)
			if len(page) == 0 {
				select {
				case <-signal:
				case <-timeout:
					t.Fatalf("the reader has got only %d of %d events in time", len(got), writers*each)
				}
				continue
			}
			got, after = append(got, page...), page[len(page)-1].Seq
		}
		require.Empty(t, <-errs)
		require.True(t, slices.IsSortedFunc(got, func(a, b fleet.Event) int { return int(a.Seq - b.Seq) }))
		next := map[string]int{}
		for _, e := range got {
			require.Equal(t, id("", next[e.AgentUID]), e.Text)
			next[e.AgentUID]++
		}
	}},
}

// appendSeed appends events of several agents and returns them as they were read. Two of the agents have names that differ only
// in case.
func appendSeed(t tb, s fleet.Store) []fleet.Event {
	t.Helper()
	papi, sony, other := newAgent("u1", "papi", "alice"), newAgent("u2", "sony", "alice"), newAgent("u3", "Papi", "bob")
	var appended []*fleet.Event
	update(t, s, func(tx fleet.Tx) error {
		appended = nil
		for _, a := range []*fleet.Agent{papi, sony, other} {
			e := newEvent(fleet.EventAgentCreated, a, "created")
			require.NoError(t, tx.Append(e))
			appended = append(appended, e)
		}
		for i := range 10 {
			for n, a := range []*fleet.Agent{papi, sony, other} {
				e := newEvent(fleet.EventTaskOutput, a, id("line", i))
				e.TaskID = []string{"t1", "t2", "t3"}[n]
				if i == 9 {
					e.Type, e.Status = fleet.EventTaskEnded, string(fleet.TaskCompleted)
				}
				require.NoError(t, tx.Append(e))
				appended = append(appended, e)
			}
		}
		return nil
	})
	log := listEvents(t, s, fleet.EventFilter{}, 0, len(appended)+1)
	requireEvents(t, log, appended...)
	return log
}

// requireEvents requires that the events that were read equal the events that were appended, apart from their Seq.
func requireEvents(t tb, got []fleet.Event, appended ...*fleet.Event) {
	t.Helper()
	require.Len(t, got, len(appended))
	for i, e := range got {
		e.Seq = 0
		require.Equal(t, *appended[i], e)
	}
}

func listEvents(t tb, s fleet.Store, f fleet.EventFilter, after int64, limit int) []fleet.Event {
	t.Helper()
	return read(t, s, func(tx fleet.ReadTx) ([]fleet.Event, error) {
		return tx.Events(f, fleet.EventWindow{After: after, Limit: limit})
	})
}

func lastEvents(t tb, s fleet.Store, f fleet.EventFilter, limit int) []fleet.Event {
	t.Helper()
	return eventsBefore(t, s, f, 0, limit)
}

func eventsBefore(t tb, s fleet.Store, f fleet.EventFilter, before int64, limit int) []fleet.Event {
	t.Helper()
	return read(t, s, func(tx fleet.ReadTx) ([]fleet.Event, error) {
		return tx.Events(f, fleet.EventWindow{Newest: true, Before: before, Limit: limit})
	})
}

func changedUIDs(t tb, s fleet.Store, after int64) []string {
	t.Helper()
	var uids []string
	for _, c := range changedAgents(t, s, after, nil, "") {
		uids = append(uids, c.UID)
	}
	return uids
}

// changedAgents returns the agents of ChangedAgents. It also checks that the returned Seq is not after the newest event.
func changedAgents(t tb, s fleet.Store, after int64, others []string, worker string) (changed []fleet.ChangedAgent) {
	t.Helper()
	last := read(t, s, func(tx fleet.ReadTx) (last int64, err error) {
		changed, last, err = tx.ChangedAgents(after, others, worker)
		return last, err
	})
	require.GreaterOrEqual(t, read(t, s, fleet.ReadTx.LastSeq), last)
	return changed
}
