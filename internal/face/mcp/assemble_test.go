package mcp_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/face/mcp"
)

// TestAResponseIsAssembled checks the bytes of responses into which the transport has put the result.
func TestAResponseIsAssembled(t *testing.T) {
	t.Parallel()
	const id = "the result of the call" // equals the placeholder that mcp-go gets instead of the result
	ts := serve(t, newStub(), mcp.Config{})
	want := post(t, ts.URL+"/mcp", call(1, "list_agents", `{}`, "")).result(t).Content[0].Text
	require.Contains(t, want, `"papi"`)
	check := func(t *testing.T, a rpcResponse) {
		t.Helper()
		require.Equal(t, id, a.ID)
		r := a.result(t)
		require.Equal(t, want, r.Content[0].Text)
		require.Equal(t, want, string(r.StructuredContent))
	}
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		a := post(t, ts.URL+"/mcp", call(id, "list_agents", `{}`, ""))
		require.Equal(t, "application/json", a.header.Get("Content-Type"))
		require.NotEmpty(t, a.header.Get("Content-Length"))
		check(t, a)
	})
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		out, err := runStdio(t, newStub(), call(id, "list_agents", `{}`, ""))
		require.NoError(t, err)
		var a rpcResponse
		require.NoError(t, json.Unmarshal([]byte(strings.TrimSpace(out)), &a))
		check(t, a)
	})
	t.Run("events", func(t *testing.T) {
		t.Parallel()
		a := post(t, ts.URL+"/mcp", call(id, "create_agent", `{"name":"papi","project":"p","spec":"s"}`, "t"))
		require.NotEmpty(t, a.progress)
		require.Equal(t, id, a.ID)
		r := a.result(t)
		require.Contains(t, r.Content[0].Text, "is ready")
		require.Equal(t, r.Content[0].Text, string(r.StructuredContent))
	})
	t.Run("an error", func(t *testing.T) {
		t.Parallel()
		r := post(t, ts.URL+"/mcp", call(id, "show_agent", `{"agent_name":"x"}`, "")).result(t)
		require.True(t, r.IsError)
		require.Contains(t, r.Content[0].Text, "AGENT_NOT_FOUND")
	})
}
