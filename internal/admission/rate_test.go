package admission

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// countAllowed returns how many of n requests of the principal are allowed.
func countAllowed(t *testing.T, r *Rates, name string, n int) (allowed int) {
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
		require.Equal(t, want, countAllowed(t, r, name, 50), name)
	}
	require.Equal(t, 1, strings.Count(log.String(), "principal=alice"), "only the first refusal must be logged: %s", log)

	err := r.take(t.Context(), fleet.Principal{Name: "alice"})
	e, ok := errors.AsType[*fleet.Error](err)
	require.True(t, ok)
	require.Equal(t, fleet.ReasonLimitReached, e.Reason)
	require.Equal(t, 100*time.Millisecond, e.RetryAfter)
	require.Equal(t, map[string]string{"limit": "limits.requests_per_second", "used": "10", "max": "10"}, e.Metadata)
	now = now.Add(100 * time.Millisecond)
	require.Equal(t, 1, countAllowed(t, r, "alice", 5), "refused requests must not use up the limit")

	var none *Rates
	require.Equal(t, 50, countAllowed(t, none, "alice", 50))
}

// TestRatesOfGroups checks that a change of a caller's groups changes the limit at once, and that an agent has the
// limit of its owner, also before the owner has called.
func TestRatesOfGroups(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	limits := fleet.Limits{RequestsPerSecond: 10, Groups: map[string]fleet.PrincipalLimits{"interns": {RequestsPerSecond: new(2)}, "robots": {RequestsPerSecond: new(0)}}}
	groupsOf := map[string][]string{"carol": {"interns"}}
	groups := func(_ context.Context, name string) ([]string, error) { return groupsOf[name], nil }
	r := NewRates(limits, groups, slog.New(slog.DiscardHandler), func() time.Time { return now })
	countAllowedOf := func(p fleet.Principal) (allowed int) {
		now = now.Add(time.Minute)
		for range 50 {
			if r.take(t.Context(), p) == nil {
				allowed++
			}
		}
		return allowed
	}
	alice, agent := fleet.Principal{Name: "alice"}, fleet.Principal{Name: "alice", AgentUID: "u1"}
	require.Equal(t, 10, countAllowedOf(agent), "an agent must have the general limit while the owner's groups are unknown")
	require.Equal(t, 2, countAllowedOf(fleet.Principal{Name: "carol", AgentUID: "u2"}))
	alice.Groups = []string{"interns"}
	require.Equal(t, 2, countAllowedOf(alice))
	require.Equal(t, 2, countAllowedOf(agent))
	alice.Groups = []string{"interns", "robots"}
	require.Equal(t, 50, countAllowedOf(alice))
	alice.Groups = nil
	require.Equal(t, 2, countAllowedOf(alice), "the bucket must keep its content and fill at the new rate")
	require.Equal(t, 10, countAllowedOf(alice))
}

// TestRatesAreShared checks that several servers have equal parts of a limit, and that unused buckets are removed.
func TestRatesAreShared(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	r := NewRates(fleet.Limits{RequestsPerSecond: 40}, nil, slog.New(slog.DiscardHandler), func() time.Time { return now })
	require.Equal(t, 40, countAllowed(t, r, "alice", 100))
	for _, servers := range []int{4, 2, 1} {
		r.SetServers(servers)
		now = now.Add(time.Second)
		require.Equal(t, 40/servers, countAllowed(t, r, "alice", 100))
		require.Equal(t, 40/servers, countAllowed(t, r, "new"+strconv.Itoa(servers), 100))
	}
	now = now.Add(time.Second)
	r.SetServers(1)
	r.current.Load().principals.Range(func(name, _ any) bool {
		require.Fail(t, "the bucket of a principal that does not call must be removed", name)
		return false
	})
}

// TestRatesOfManyServers checks that a server whose part of a limit is less than one request per second allows single requests, and
// that it keeps its part when the principal's limit changes.
func TestRatesOfManyServers(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	limits := fleet.Limits{RequestsPerSecond: 10, Groups: map[string]fleet.PrincipalLimits{"robots": {RequestsPerSecond: new(20)}}}
	r := NewRates(limits, nil, slog.New(slog.DiscardHandler), func() time.Time { return now })
	r.SetServers(100)
	require.Equal(t, 1, countAllowed(t, r, "alice", 50))
	robot := fleet.Principal{Name: "alice", Groups: []string{"robots"}}
	_ = r.take(t.Context(), robot)
	now = now.Add(5 * time.Second)
	require.NoError(t, r.take(t.Context(), robot), "a fifth of a request per second must allow one request after five seconds")
	require.Error(t, r.take(t.Context(), robot))
}

// TestRatesOfProjects checks that principals share the limit of a project evenly, whatever each of them sends.
func TestRatesOfProjects(t *testing.T) {
	t.Parallel()
	now, log := time.Unix(1_000_000, 0), &bytes.Buffer{}
	r := NewRates(fleet.Limits{Projects: map[string]fleet.ProjectLimits{"web": {RequestsPerSecond: 12}}}, nil, slog.New(slog.NewTextHandler(log, nil)), func() time.Time { return now })
	countAllowedIn := func(name, project string) (allowed int) {
		ctx := fleet.WithPrincipal(t.Context(), fleet.Principal{Name: name})
		for range 50 {
			if r.takeForProject(ctx, project) == nil {
				allowed++
			}
		}
		return allowed
	}
	require.Equal(t, 50, countAllowedIn("alice", "shell"))
	require.Equal(t, 12, countAllowedIn("alice", "web"))
	require.Equal(t, 1, strings.Count(log.String(), "principal=alice project=web requests_per_second=12"), log)
	require.Equal(t, 1, countAllowedIn("bob", "web"), "a principal that comes later must not be shut out")
	now = now.Add(time.Second)
	require.Equal(t, []int{6, 6}, []int{countAllowedIn("alice", "web"), countAllowedIn("bob", "web")})
	setServers := func(servers int) {
		r.SetServers(servers)
		now = now.Add(time.Second)
	}
	setServers(2)
	require.Equal(t, []int{3, 3}, []int{countAllowedIn("alice", "web"), countAllowedIn("bob", "web")})
	now = now.Add(time.Second)
	require.Equal(t, 3, countAllowedIn("bob", "web"))
	setServers(1) // alice has not called for a second
	require.Equal(t, 12, countAllowedIn("bob", "web"))

	err := r.takeForProject(fleet.WithPrincipal(t.Context(), fleet.Principal{Name: "bob"}), "web")
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
