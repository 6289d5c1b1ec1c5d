package admission

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"fleet/internal/fleet"
)

// sent returns how many of n requests of the principal are allowed.
func sent(t *testing.T, r *Rates, name string, n int) (allowed int) {
	t.Helper()
	for range n {
		if r.take(t.Context(), fleet.Principal{Name: name}) == nil {
			allowed++
		}
	}
	return allowed
}

func TestRatesArePerPrincipal(t *testing.T) {
	t.Parallel()
	now, log := time.Unix(1_000_000, 0), &bytes.Buffer{}
	limits := fleet.Limits{RequestsPerSecond: 10, Principals: map[string]fleet.PrincipalLimits{
		"ci": {RequestsPerSecond: new(2)}, "root": {RequestsPerSecond: new(0)}, "other": {Agents: new(1)},
	}}
	r := NewRates(limits, nil, slog.New(slog.NewTextHandler(log, nil)), func() time.Time { return now })
	for name, want := range map[string]int{"alice": 10, "bob": 10, "ci": 2, "root": 50, "other": 10} {
		require.Equal(t, want, sent(t, r, name, 50), name)
	}
	require.Equal(t, 1, strings.Count(log.String(), "principal=alice"), "only the first refusal must be logged: %s", log)

	err := r.take(t.Context(), fleet.Principal{Name: "alice"})
	e, ok := errors.AsType[*fleet.Error](err)
	require.True(t, ok)
	require.Equal(t, fleet.ReasonLimitReached, e.Reason)
	require.Equal(t, 100*time.Millisecond, e.RetryAfter)
	require.Equal(t, map[string]string{"limit": "limits.requests_per_second", "used": "10", "max": "10"}, e.Metadata)
	now = now.Add(100 * time.Millisecond)
	require.Equal(t, 1, sent(t, r, "alice", 5), "refused requests must not use up the limit")

	var none *Rates
	require.Equal(t, 50, sent(t, none, "alice", 50))
}

// TestRatesOfGroups checks that a change of a caller's groups changes the limit at once, and that an agent has the
// limit of its owner, also before the owner has called.
func TestRatesOfGroups(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	limits := fleet.Limits{RequestsPerSecond: 10, Groups: map[string]fleet.PrincipalLimits{"interns": {RequestsPerSecond: new(2)}, "robots": {RequestsPerSecond: new(0)}}}
	known := map[string][]string{"carol": {"interns"}}
	groups := func(_ context.Context, name string) ([]string, error) { return known[name], nil }
	r := NewRates(limits, groups, slog.New(slog.DiscardHandler), func() time.Time { return now })
	sent := func(p fleet.Principal) (allowed int) {
		now = now.Add(time.Minute)
		for range 50 {
			if r.take(t.Context(), p) == nil {
				allowed++
			}
		}
		return allowed
	}
	alice, agent := fleet.Principal{Name: "alice"}, fleet.Principal{Name: "alice", AgentUID: "u1"}
	require.Equal(t, 10, sent(agent), "an agent must have the general limit while the owner's groups are unknown")
	require.Equal(t, 2, sent(fleet.Principal{Name: "carol", AgentUID: "u2"}))
	alice.Groups = []string{"interns"}
	require.Equal(t, 2, sent(alice))
	require.Equal(t, 2, sent(agent))
	alice.Groups = []string{"interns", "robots"}
	require.Equal(t, 50, sent(alice))
	alice.Groups = nil
	require.Equal(t, 2, sent(alice), "the bucket must keep its content and fill at the new rate")
	require.Equal(t, 10, sent(alice))
}

// server is one of several servers that share limits.
type server struct {
	*Rates
	demand map[string]float64 // what the others know
}

// newServers returns n servers that share limits. pass lets a second pass, after which each server reads the demand of the others.
func newServers(n int, limits fleet.Limits, now *time.Time) (all []*server, pass func()) {
	for range n {
		all = append(all, &server{Rates: NewRates(limits, nil, slog.New(slog.DiscardHandler), func() time.Time { return *now })})
	}
	pass = func() {
		*now = now.Add(time.Second)
		for i, s := range all {
			s.demand = s.Demand()
			var others []map[string]float64
			for j, other := range all {
				if i != j {
					others = append(others, other.demand)
				}
			}
			s.Share(others)
		}
	}
	pass()
	return all, pass
}

func TestRatesAreShared(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	all, pass := newServers(4, fleet.Limits{RequestsPerSecond: 40}, &now)
	burst := func() (total int) {
		for _, s := range all {
			total += sent(t, s.Rates, "alice", 100)
		}
		return total
	}
	for _, want := range []int{10, 10, 10, 40} {
		require.Equal(t, want, sent(t, all[0].Rates, "alice", 100), "a principal that calls only one server must soon have the whole limit there")
		pass()
	}
	require.Equal(t, 10, sent(t, all[1].Rates, "alice", 100))
	require.Equal(t, 40, sent(t, all[0].Rates, "alice", 30)+sent(t, all[0].Rates, "alice", 70))
	pass()
	for range 2 { // the servers learn of each other
		sent(t, all[0].Rates, "alice", 100)
		sent(t, all[1].Rates, "alice", 100)
		pass()
	}
	require.Equal(t, []int{20, 20}, []int{sent(t, all[0].Rates, "alice", 100), sent(t, all[1].Rates, "alice", 100)})
	pass()
	for range 5 {
		pass()
		require.LessOrEqual(t, burst(), 40)
	}
	for range 5 {
		pass()
		for _, s := range all {
			require.Equal(t, 9, sent(t, s.Rates, "alice", 9))
		}
	}
	pass()
	require.LessOrEqual(t, burst(), 40, "little demand on every server must not raise the limit")

	pass()
	pass()
	for _, s := range all {
		s.current.Load().principals.Range(func(name, _ any) bool {
			require.Fail(t, "the bucket of a principal that does not call must be removed", name)
			return false
		})
	}
}

// TestRatesOfSomeServers checks that a part of less than one request allows one request at a time, and that a change of the
// principal's limit keeps the part.
func TestRatesOfSomeServers(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	limits := fleet.Limits{RequestsPerSecond: 10, Groups: map[string]fleet.PrincipalLimits{"robots": {RequestsPerSecond: new(20)}}}
	r := NewRates(limits, nil, slog.New(slog.DiscardHandler), func() time.Time { return now })
	r.Share(make([]map[string]float64, 99))
	require.Equal(t, 1, sent(t, r, "alice", 50))
	for range 2 {
		now = now.Add(time.Second)
		sent(t, r, "alice", 50)
		r.Demand()
		r.Share(make([]map[string]float64, 99))
	}
	now = now.Add(time.Second)
	require.Equal(t, 10, sent(t, r, "alice", 50))
	robot := fleet.Principal{Name: "alice", Groups: []string{"robots"}}
	_ = r.take(t.Context(), robot)
	now = now.Add(2 * time.Second)
	for range 20 {
		require.NoError(t, r.take(t.Context(), robot))
	}
	require.Error(t, r.take(t.Context(), robot))
}

func TestParts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		others []float64
		want   rate.Limit
	}{
		{nil, 12},
		{[]float64{0, 0}, 12},
		{[]float64{2}, 10},
		{[]float64{100}, 6},
		{[]float64{6}, 6},
		{[]float64{100, 2}, 5}, // 2, and twice 5
		{[]float64{100, 2, 1}, 4.5},
		{[]float64{5, 5}, 4},
		{[]float64{100, 100, 100}, 3},
	} {
		d := demands{}
		for _, v := range c.others {
			d = append(d, map[string]float64{"k": v, "other": 1000})
		}
		var mine demand
		require.InDelta(t, 12/float64(len(c.others)+1), float64(d.part("k", 12, &mine)), 1e-9, "%v", c.others)
		mine.high.Store(knownAfter)
		require.InDelta(t, float64(c.want), float64(d.part("k", 12, &mine)), 1e-9, "%v", c.others)
	}
}

// TestRatesTogether checks that servers with random demand together allow no more than the limit, as long as the demand stays the
// same, and that they soon allow all of it if it is needed.
func TestRatesTogether(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const most = 600
		wanted := rapid.SliceOfN(rapid.IntRange(0, 2*most), 1, 6).Draw(t, "demand")
		now, total := time.Unix(1_000_000, 0), 0
		for _, n := range wanted {
			total += n
		}
		all, pass := newServers(len(wanted), fleet.Limits{RequestsPerSecond: most}, &now)
		for i := range 6 {
			allowed := 0
			for j, n := range wanted {
				for range n {
					if all[j].take(context.Background(), fleet.Principal{Name: "alice"}) == nil {
						allowed++
					}
				}
			}
			require.LessOrEqual(t, float64(allowed), most*(1+negligible))
			if i >= 4 {
				require.GreaterOrEqual(t, allowed, min(total, most)*99/100, "%d servers", len(wanted))
			}
			pass()
		}
	})
}

// TestDemand checks that refused requests count, that requests count once, and that few requests are left out.
func TestDemand(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	limits := fleet.Limits{RequestsPerSecond: 10, Projects: map[string]fleet.ProjectLimits{"web": {RequestsPerSecond: 10}}}
	r := NewRates(limits, nil, slog.New(slog.DiscardHandler), func() time.Time { return now })
	sent(t, r, "alice", 100)
	sent(t, r, "bob", 4)
	for _, name := range []string{"alice", "bob", "carol"} {
		_ = r.takeIn(fleet.WithPrincipal(t.Context(), fleet.Principal{Name: name}), "web")
	}
	now = now.Add(5 * time.Second)
	require.Equal(t, map[string]float64{"principal/alice": 20}, r.Demand())
	require.Empty(t, r.Demand())
	r.Share(make([]map[string]float64, 9)) // of ten servers, each must know less demand
	sent(t, r, "bob", 4)
	_ = r.takeIn(fleet.WithPrincipal(t.Context(), fleet.Principal{Name: "bob"}), "web")
	now = now.Add(5 * time.Second)
	require.Equal(t, map[string]float64{"principal/bob": 0.8, "project/web": 0.2}, r.Demand())
}

// TestRatesOfProjects checks that principals share the limit of a project evenly, whatever each of them sends.
func TestRatesOfProjects(t *testing.T) {
	t.Parallel()
	now, log := time.Unix(1_000_000, 0), &bytes.Buffer{}
	r := NewRates(fleet.Limits{Projects: map[string]fleet.ProjectLimits{"web": {RequestsPerSecond: 12}}}, nil, slog.New(slog.NewTextHandler(log, nil)), func() time.Time { return now })
	sent := func(name, project string) (allowed int) {
		ctx := fleet.WithPrincipal(t.Context(), fleet.Principal{Name: name})
		for range 50 {
			if r.takeIn(ctx, project) == nil {
				allowed++
			}
		}
		return allowed
	}
	require.Equal(t, 50, sent("alice", "shell"))
	require.Equal(t, 12, sent("alice", "web"))
	require.Equal(t, 1, strings.Count(log.String(), "principal=alice project=web requests_per_second=12"), log)
	require.Equal(t, 1, sent("bob", "web"), "who comes later must not be shut out")
	now = now.Add(time.Second)
	require.Equal(t, []int{6, 6}, []int{sent("alice", "web"), sent("bob", "web")})
	share := func(other float64) {
		r.Demand()
		r.Share([]map[string]float64{{"project/web": other}})
		now = now.Add(time.Second)
	}
	share(100)
	require.Equal(t, []int{3, 3}, []int{sent("alice", "web"), sent("bob", "web")})
	now = now.Add(time.Second)
	require.Equal(t, 3, sent("bob", "web"))
	share(0) // alice has not called for a second
	require.Equal(t, 12, sent("bob", "web"))

	err := r.takeIn(fleet.WithPrincipal(t.Context(), fleet.Principal{Name: "bob"}), "web")
	e, ok := errors.AsType[*fleet.Error](err)
	require.True(t, ok)
	require.Equal(t, fleet.ReasonLimitReached, e.Reason)
	require.NotZero(t, e.RetryAfter)
	require.Equal(t, map[string]string{"limit": "limits.projects.web.requests_per_second", "used": "12", "max": "12"}, e.Metadata)
}

func BenchmarkRates(b *testing.B) {
	r := NewRates(fleet.Limits{RequestsPerSecond: 1 << 40}, nil, slog.New(slog.DiscardHandler), nil)
	p := fleet.Principal{Name: "alice"}
	for b.Loop() {
		if err := r.take(b.Context(), p); err != nil {
			b.Fatal(err)
		}
	}
}
