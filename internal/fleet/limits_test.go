package fleet_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestLimitsOfGroups checks which limit applies: the limit of the principal, else the highest limit of its groups, else
// the general limit. A general limit also applies if one of the principal's groups has none.
func TestLimitsOfGroups(t *testing.T) {
	t.Parallel()
	l := fleet.Limits{
		Agents: 10, RunningTasks: 5, StoredBytes: 1000, RequestsPerSecond: 100,
		Groups: map[string]fleet.PrincipalLimits{
			"oidc:interns":  {Agents: new(2), RequestsPerSecond: new(10)},
			"oidc:builders": {Agents: new(50), StoredBytes: new(int64(500))},
			"oidc:robots":   {Agents: new(0)},
		},
		Principals: map[string]fleet.PrincipalLimits{"oidc:carol": {Agents: new(3)}},
	}
	for _, c := range []struct {
		who             string
		groups          []string
		agents, running int
		bytes           int64
		requests        int
	}{
		{"alice", nil, 10, 5, 1000, 100},
		{"alice", []string{"oidc:others"}, 10, 5, 1000, 100},
		{"alice", []string{"oidc:interns"}, 2, 5, 1000, 10},
		{"alice", []string{"oidc:interns", "oidc:others", "oidc:builders"}, 50, 5, 1000, 100},
		{"alice", []string{"oidc:builders", "oidc:interns"}, 50, 5, 1000, 100},
		{"alice", []string{"oidc:builders", "oidc:robots"}, 0, 5, 1000, 100},
		{"oidc:carol", []string{"oidc:interns"}, 3, 5, 1000, 10},
	} {
		got := l.For(c.who, c.groups)
		require.Equal(t, []int{c.agents, c.running, int(c.bytes), c.requests}, []int{got.Agents, got.RunningTasks, int(got.StoredBytes), got.RequestsPerSecond}, "%s in %q", c.who, c.groups)
	}
	settings := func(who string, groups ...string) (lines []string) {
		for _, limit := range l.ListFor(who, groups) {
			lines = append(lines, fmt.Sprintf("%s %d", limit.Setting(), limit.Max))
		}
		return lines
	}
	require.Equal(t, []string{"limits.agents 10", "limits.running_tasks 5", "limits.stored_bytes 1000", "limits.requests_per_second 100"}, settings("alice"))
	require.Equal(t, []string{"limits.groups.oidc:builders.agents 50", "limits.running_tasks 5", "limits.stored_bytes 1000", "limits.requests_per_second 100"},
		settings("alice", "oidc:interns", "oidc:others", "oidc:builders"), "a general limit applies if it is higher than the limit of a group")
	require.Equal(t, []string{"limits.running_tasks 5", "limits.stored_bytes 1000", "limits.requests_per_second 100"}, settings("alice", "oidc:robots"))
	require.Equal(t, []string{"limits.principals.oidc:carol.agents 3", "limits.running_tasks 5", "limits.stored_bytes 1000", "limits.groups.oidc:interns.requests_per_second 10"},
		settings("oidc:carol", "oidc:interns"))
	require.NoError(t, l.Validate())
	l.Groups["oidc:interns"] = fleet.PrincipalLimits{RunningTasks: new(-1)}
	require.ErrorContains(t, l.Validate(), "limits.groups.oidc:interns.running_tasks")
	l.Groups = nil
	l.Projects = map[string]fleet.ProjectLimits{"shop": {StoredBytes: -1}}
	require.ErrorContains(t, l.Validate(), "limits.projects.shop.stored_bytes")
}
