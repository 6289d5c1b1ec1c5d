package state

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// newAgentLists returns the lists of a fleet with an agent for each of the owners. Each owner has a place of its own.
func newAgentLists(owners ...string) *agentLists {
	l := &agentLists{shares: &Shares{}}
	for i, owner := range owners {
		l.views = append(l.views, &fleet.AgentView{Agent: fleet.Agent{UID: fmt.Sprint(i), Name: fmt.Sprint("a", i), Owner: owner, Place: "at-" + owner}})
	}
	return l
}

// listFor returns the page that the principal gets for the request.
func listFor(t *testing.T, l *agentLists, p fleet.Principal, r fleet.ListAgentsRequest) *fleet.AgentPage {
	t.Helper()
	got, err := l.List(p, r, "")
	require.NoError(t, err)
	return got
}

// TestListsAreShared checks that principals get the same list if and only if they see the same agents with the same
// filter.
func TestListsAreShared(t *testing.T) {
	t.Parallel()
	l := newAgentLists("alice", "bob", "alice")
	root, alice, bob := fleet.Principal{Name: "root", Scope: fleet.ScopeAdmin}, fleet.Principal{Name: "alice"}, fleet.Principal{Name: "bob"}
	require.Equal(t, l.views, listFor(t, l, root, fleet.ListAgentsRequest{}).Agents)
	require.Empty(t, listFor(t, l, fleet.Principal{Name: "root", Scope: fleet.ScopeAdmin, Projects: []string{"web"}}, fleet.ListAgentsRequest{}).Agents, "an admin who is restricted to a project must not see others")
	require.Equal(t, []*fleet.AgentView{l.views[0], l.views[2]}, listFor(t, l, alice, fleet.ListAgentsRequest{}).Agents)
	require.Equal(t, []*fleet.AgentView{l.views[1]}, listFor(t, l, bob, fleet.ListAgentsRequest{}).Agents)
	require.Empty(t, listFor(t, l, fleet.Principal{Name: "carol"}, fleet.ListAgentsRequest{}).Agents)
	require.Empty(t, listFor(t, l, fleet.Principal{Name: "at-alice"}, fleet.ListAgentsRequest{}).Agents)

	require.Same(t, listFor(t, l, alice, fleet.ListAgentsRequest{}), listFor(t, l, fleet.Principal{Name: "alice", Kind: fleet.KindController}, fleet.ListAgentsRequest{}))
	require.Same(t, listFor(t, l, root, fleet.ListAgentsRequest{}), listFor(t, l, fleet.Principal{Name: "other", Scope: fleet.ScopeAdmin}, fleet.ListAgentsRequest{}))
	require.NotSame(t, listFor(t, l, alice, fleet.ListAgentsRequest{}), listFor(t, l, alice, fleet.ListAgentsRequest{Role: "coder"}))

	require.Equal(t, []string{"at-alice", "at-bob"}, l.PlacesOf(root))
	require.Equal(t, []string{"at-alice"}, l.PlacesOf(alice))
	require.Empty(t, l.PlacesOf(fleet.Principal{Name: "carol"}))

	l = newAgentLists("alice", "alice")
	require.Same(t, listFor(t, l, alice, fleet.ListAgentsRequest{}), listFor(t, l, root, fleet.ListAgentsRequest{}), "an admin who sees the same agents must get the same list")
}

// TestListsOfSharedAgents checks that lists contain the agents that are shared with the principal.
func TestListsOfSharedAgents(t *testing.T) {
	t.Parallel()
	l := newAgentLists("alice", "bob", "alice")
	l.views[0].Shares = []fleet.Share{{Grantee: fleet.Grantee{Group: "ops"}, Access: fleet.AccessView}}
	l.views[2].Shares = []fleet.Share{{Grantee: fleet.Grantee{Person: "bob"}, Access: fleet.AccessRun}}
	l.shares = l.shares.update([]*fleet.Agent{&l.views[0].Agent, &l.views[1].Agent, &l.views[2].Agent})
	bob, operator := fleet.Principal{Name: "bob"}, fleet.Principal{Name: "bob", Groups: []string{"ops"}}
	all := fleet.ListAgentsRequest{}
	require.Equal(t, l.views[1:], listFor(t, l, bob, all).Agents)
	require.Equal(t, l.views, listFor(t, l, operator, all).Agents)
	require.Equal(t, l.views[1:], listFor(t, l, fleet.Principal{Name: "bob", Groups: []string{"sales"}}, all).Agents)
	require.Equal(t, l.views[:1], listFor(t, l, fleet.Principal{Name: "carol", Groups: []string{"ops"}}, all).Agents)
	require.Empty(t, listFor(t, l, fleet.Principal{Name: "ops"}, all).Agents)
	require.Same(t, listFor(t, l, operator, all), listFor(t, l, fleet.Principal{Name: "root", Scope: fleet.ScopeAdmin}, all), "principals who see the same agents must get the same list")
	require.Equal(t, []string{"at-alice", "at-bob"}, l.PlacesOf(bob))
	require.Equal(t, []string{"0", "2"}, l.shares.SharedWith(operator))

	changed := l.views[0].Agent
	changed.State = fleet.StateStopped
	require.Same(t, l.shares, l.shares.update([]*fleet.Agent{&changed}), "the revision must stay, because the agent's shares have not changed")
	changed.Shares = nil
	require.Equal(t, []string{"2"}, l.shares.update([]*fleet.Agent{&changed}).SharedWith(operator))
}

// TestDeriveOnce checks that Derive calls its function once for each list.
func TestDeriveOnce(t *testing.T) {
	t.Parallel()
	r := listFor(t, newAgentLists("alice"), fleet.Principal{Name: "alice"}, fleet.ListAgentsRequest{})
	n := 0
	for range 3 {
		require.Equal(t, 1, r.Derive(func() any { n++; return n }))
	}
}

// TestListsAreBounded checks that the number of kept lists, and of agents in them, has a limit.
func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	l := newAgentLists("alice")
	for page := 1; page < 1000; page++ { // all pages but the first are empty
		listFor(t, l, fleet.Principal{Name: "alice"}, fleet.ListAgentsRequest{PageRequest: fleet.PageRequest{Page: &page}})
		require.LessOrEqual(t, len(l.lists), maxCacheSize/sizePerList)
	}
	owners := make([]string, maxCacheSize)
	for i := range owners {
		owners[i] = "alice"
	}
	l = newAgentLists(owners...)
	require.Len(t, listFor(t, l, fleet.Principal{Name: "alice"}, fleet.ListAgentsRequest{}).Agents, maxCacheSize)
	require.Empty(t, l.lists)
}
