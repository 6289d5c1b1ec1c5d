package fleet

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func agents(owners ...string) *listing {
	l := &listing{}
	for i, owner := range owners {
		l.views = append(l.views, &AgentView{Agent: Agent{UID: fmt.Sprint(i), Name: fmt.Sprint("a", i), Owner: owner, Place: "at-" + owner}})
	}
	return l
}

func rows(t *testing.T, l *listing, p Principal, r ListAgentsRequest) *AgentRows {
	t.Helper()
	got, err := l.list(p, r, "")
	require.NoError(t, err)
	return got
}

func TestListsAreShared(t *testing.T) {
	t.Parallel()
	l := agents("alice", "bob", "alice")
	root, alice, bob := Principal{Name: "root", Admin: true}, Principal{Name: "alice"}, Principal{Name: "bob"}
	require.Equal(t, l.views, rows(t, l, root, ListAgentsRequest{}).Agents)
	require.Equal(t, []*AgentView{l.views[0], l.views[2]}, rows(t, l, alice, ListAgentsRequest{}).Agents)
	require.Equal(t, []*AgentView{l.views[1]}, rows(t, l, bob, ListAgentsRequest{}).Agents)
	require.Empty(t, rows(t, l, Principal{Name: "carol"}, ListAgentsRequest{}).Agents)
	require.Empty(t, rows(t, l, Principal{Name: "at-alice"}, ListAgentsRequest{}).Agents)

	require.Same(t, rows(t, l, alice, ListAgentsRequest{}), rows(t, l, Principal{Name: "alice", Kind: Controller}, ListAgentsRequest{}))
	require.Same(t, rows(t, l, root, ListAgentsRequest{}), rows(t, l, Principal{Name: "other", Admin: true}, ListAgentsRequest{}))
	require.NotSame(t, rows(t, l, alice, ListAgentsRequest{}), rows(t, l, alice, ListAgentsRequest{Role: "coder"}))

	require.Equal(t, []string{"at-alice", "at-bob"}, l.placesOf(root))
	require.Equal(t, []string{"at-alice"}, l.placesOf(alice))
	require.Empty(t, l.placesOf(Principal{Name: "carol"}))

	l = agents("alice", "alice")
	require.Same(t, rows(t, l, alice, ListAgentsRequest{}), rows(t, l, root, ListAgentsRequest{}), "an admin sees the same agents")
}

func TestDeriveOnce(t *testing.T) {
	t.Parallel()
	r := rows(t, agents("alice"), Principal{Name: "alice"}, ListAgentsRequest{})
	n := 0
	for range 3 {
		require.Equal(t, 1, r.Derive(func() any { n++; return n }))
	}
}

func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	l := agents("alice")
	for page := 1; page < 1000; page++ { // all but the first are empty
		rows(t, l, Principal{Name: "alice"}, ListAgentsRequest{PageRequest: PageRequest{Page: &page}})
		require.LessOrEqual(t, len(l.lists), maxKept/leastKept)
	}
	owners := make([]string, maxKept)
	for i := range owners {
		owners[i] = "alice"
	}
	l = agents(owners...)
	require.Len(t, rows(t, l, Principal{Name: "alice"}, ListAgentsRequest{}).Agents, maxKept)
	require.Empty(t, l.lists)
}
