package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

var toolCases = []testCase{
	{"a tool comes back, and replaces a tool with the same name", func(t *testing.T, s fleet.Store) {
		tool := newTool("calculate", "alice", "")
		insertRows(t, s, tool)
		insertRows(t, s, newTool("calculate", "bob", ""))
		insertRows(t, s, newTool("calculate", "alice", "claude"))
		require.Equal(t, []*fleet.RegisteredTool{tool, newTool("calculate", "alice", "claude")}, tools(t, s, "alice"))
		replacement := newTool("calculate", "alice", "")
		replacement.Description, replacement.CreatedAt, replacement.UpdatedAt = "better", noon.Add(time.Hour), noon.Add(time.Hour)
		insertRows(t, s, replacement)
		require.Equal(t, noon, replacement.CreatedAt, "a tool that replaces another must keep the other's creation time")
		require.Equal(t, []*fleet.RegisteredTool{replacement, newTool("calculate", "alice", "claude")}, tools(t, s, "alice"))
		require.Empty(t, tools(t, s, "carol"))
	}},
	{"only the named tool is removed", func(t *testing.T, s fleet.Store) {
		insertRows(t, s, newTool("calculate", "alice", ""), newTool("calculate", "alice", "claude"), newTool("calculate", "bob", ""))
		for range 2 { // the second time, the tool no longer exists
			update(t, s, func(tx fleet.Tx) error { return tx.Delete(newTool("calculate", "alice", "")) })
		}
		require.Equal(t, []*fleet.RegisteredTool{newTool("calculate", "alice", "claude")}, tools(t, s, "alice"))
		require.Len(t, tools(t, s, "bob"), 1)
	}},
}

func newTool(name, owner, agent string) *fleet.RegisteredTool {
	return &fleet.RegisteredTool{
		Tool: fleet.Tool{
			Name: name, Description: "it <counts>", Parameters: []byte(`{"type":"object"}`),
			HTTP: &fleet.HTTPTool{URL: "http://127.0.0.1/x", Headers: map[string]string{"X": "${KEY}"}},
		},
		Owner: owner, Agent: agent, CreatedAt: noon, UpdatedAt: noon.Add(time.Second),
	}
}

func tools(t tb, s fleet.Store, owner string) []*fleet.RegisteredTool {
	t.Helper()
	return read(t, s, func(tx fleet.ReadTx) ([]*fleet.RegisteredTool, error) { return tx.Tools(owner) })
}
