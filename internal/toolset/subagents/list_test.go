package subagents_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/toolset/subagents"
)

func TestList(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *subagents.Config) { c.Timeout = time.Minute })
	listed, broken, err := w.List(w.ctx())
	require.NoError(t, err)
	require.Equal(t, []subagents.Listed{}, listed)
	require.Equal(t, []subagents.Broken{}, broken)

	w.define("web-search", contractExample, "You search.")
	w.define("private", "{allowed_callers: [bob], session: true, calls: [x]}", "You are private.")
	w.define("broken", "permissions: yes", "x")
	w.define("needy", "mcp_servers: [{name: a, command: a, env: {K: '${NOT_THERE}'}}]", "x")
	listed, broken, err = w.List(w.ctx())
	require.NoError(t, err)
	require.Equal(t, []string{"private", "web-search"}, names(listed))
	private, web := listed[0], listed[1]
	require.False(t, private.Allowed)
	require.True(t, private.Session)
	require.Equal(t, time.Minute, private.Timeout)
	require.True(t, web.Allowed)
	require.Equal(t, 30*time.Second, web.Timeout)
	require.Equal(t, "Searches the web and returns summarized results", web.Description)
	require.Equal(t, []subagents.Broken{
		{"broken", "broken/agent.md: line 2: string was used where mapping is expected"},
		{"needy", `K of the MCP server "a": the variable NOT_THERE is not set in the server's environment, or is reserved for the server: set it and start the server again`},
	}, broken)

	listed, _, err = w.List(as(t.Context(), "bob"))
	require.NoError(t, err)
	require.True(t, listed[0].Allowed)

	// The next call sees the repaired file.
	w.define("broken", "permissions: {allow: [Read]}", "x")
	require.Equal(t, "mended", w.does("broken", "say mended").Text)

	_, _, err = w.List(t.Context())
	fails(t, err, fleet.ReasonUnauthenticated)
}
