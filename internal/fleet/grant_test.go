package fleet_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

func TestGrantIntersect(t *testing.T) {
	t.Parallel()
	root := (&fleet.Grant{Pools: []string{"crew"}, Projects: []string{"local/web", "docs"}, Roles: []string{"Coder", "tester"}, MaxTotal: 10, MaxCostUSD: 2}).WithDefaults("web").Intersect(nil, 0)
	require.Equal(t, 2, root.MaxDepth)
	child := (&fleet.Grant{Projects: []string{"web", "other"}, Roles: []string{"coder", "admin"}, MaxDepth: 8, MaxTotal: 100, PerMinute: 3, May: []fleet.DelegatedAct{fleet.ActStart}}).WithDefaults("web").Intersect(root, 1)
	require.Equal(t, &fleet.Grant{
		Projects: []string{"web"}, Roles: []string{"coder"}, MaxDepth: 2, MaxChildren: 8, MaxRunning: 4, MaxTotal: 10, PerMinute: 3, MaxCostUSD: 2, May: []fleet.DelegatedAct{fleet.ActStart},
	}, child)
	require.True(t, child.AllowsProjectRole(fleet.ProjectRole{Place: "local", Project: "web", Role: "CODER"}))
	require.False(t, child.AllowsProjectRole(fleet.ProjectRole{Place: "local", Project: "web", Role: "tester"}))
	require.False(t, child.AllowsProjectRole(fleet.ProjectRole{Place: "local", Project: "docs", Role: "coder"}))
	require.True(t, child.Allows(fleet.ActStart) && child.Allows(fleet.ActLook))
	require.False(t, child.Allows(fleet.ActStop) || child.Allows(""))

	none := (&fleet.Grant{Roles: []string{"admin"}}).WithDefaults("web").Intersect(root, 1)
	require.Empty(t, none.Projects, "no role is left, and an empty list of roles would mean all")
	require.Nil(t, (*fleet.Grant)(nil).WithDefaults("web").Intersect(root, 1))
	require.False(t, (*fleet.Grant)(nil).Allows(fleet.ActLook))
}
