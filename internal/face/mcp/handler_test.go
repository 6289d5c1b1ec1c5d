package mcp_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/face/mcp"
)

const showPapi = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"show_agent","arguments":{"agent_name":"papi"}}}`

func TestInitializeIntroducesTheServer(t *testing.T) {
	t.Parallel()
	a := post(t, serve(t, newStub(), mcp.Config{Version: "1.2.3"}).URL+"/mcp", initialize)
	require.Equal(t, 200, a.status)
	require.NotEmpty(t, a.header.Get("Mcp-Session-Id"))
	var r struct {
		ProtocolVersion string
		Instructions    string
		ServerInfo      struct{ Name, Version string }
		Capabilities    map[string]any
	}
	require.NoError(t, json.Unmarshal(a.Result, &r))
	require.Equal(t, "2025-11-25", r.ProtocolVersion)
	require.Equal(t, "fleet", r.ServerInfo.Name)
	require.Equal(t, "1.2.3", r.ServerInfo.Version)
	require.Contains(t, r.Instructions, "create_agent")
	require.Contains(t, r.Capabilities, "tools")
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	ts := serve(t, newStub(), mcp.Config{})
	for _, c := range []struct {
		name, tool, arguments, want string
		failed                      bool
	}{
		{"success", "list_agents", `{}`, `{"agents":[{"name":"papi","status":"idle","current_task":null,"state":"running","role":"","project":"","current_task_id":null,"owner":"","place":""}],"total_count":1,"observed_at":null,"places":[]}`, false},
		{"no arguments", "list_agents", `null`, `{"agents":[{"name":"papi","status":"idle","current_task":null,"state":"running","role":"","project":"","current_task_id":null,"owner":"","place":""}],"total_count":1,"observed_at":null,"places":[]}`, false},
		{"not found", "show_agent", `{"agent_name":"x"}`, `{"error":"AGENT_NOT_FOUND","message":"There is no agent 'x'.","details":{"agent_name":"x"}}`, true},
		{"unknown argument", "show_agent", `{"agent_nam":"x"}`, `{"error":"INVALID_ARGUMENT","message":"unknown field \"agent_nam\": did you mean \"agent_name\"?","details":{"field":"agent_nam"}}`, true},
		{"argument given twice", "show_agent", `{"agent_name":"x","agent_name":"y"}`, `{"error":"INVALID_ARGUMENT","message":"the field \"agent_name\" is given twice; give it once","details":{"field":"agent_name"}}`, true},
		{"wrong type", "list_agents", `{"page":"x"}`, `{"error":"INVALID_PAGE","message":"page must be a whole number, got the string \"x\"","details":{"field":"page"}}`, true},
		{"arguments are not an object", "list_agents", `"x"`, `{"error":"INVALID_ARGUMENT","message":"expected a JSON object with the fields of the request, got the string \"x\"","details":null}`, true},
		{"unimplemented method", "list_agent_roles", `{"project":"x"}`, `{"error":"UNIMPLEMENTED","message":"method ListAgentRoles not implemented","details":null}`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := post(t, ts.URL+"/mcp", call(1, c.tool, c.arguments, "")).result(t)
			require.Equal(t, c.failed, r.IsError)
			require.Len(t, r.Content, 1)
			require.Equal(t, "text", r.Content[0].Type)
			require.JSONEq(t, c.want, r.Content[0].Text)
			if c.failed {
				require.Nil(t, r.StructuredContent)
			} else {
				require.JSONEq(t, c.want, string(r.StructuredContent))
			}
		})
	}
}

func TestTheCallerIsPassedOn(t *testing.T) {
	t.Parallel()
	s := newStub()
	ts := serve(t, s, mcp.Config{})
	post(t, ts.URL+"/mcp", showPapi, "Authorization", "Bearer secret")
	require.Equal(t, []string{"Bearer secret"}, s.showAgentMetadata.Get("authorization"))
	require.Equal(t, []string{"mcp"}, s.showAgentMetadata.Get("fleet-face"))
	post(t, ts.URL+"/mcp", showPapi)
	require.Empty(t, s.showAgentMetadata.Get("authorization"))
	post(t, ts.URL+"/mcp", showPapi, "Authorization", "Bearer s\u00e9cret")
	require.Empty(t, s.showAgentMetadata.Get("authorization"))
}

func TestToolsets(t *testing.T) {
	t.Parallel()
	ts := serve(t, newStub(), mcp.Config{})
	for _, path := range []string{"/mcp", "/mcp/", "/mcp/fleet", "/mcp/all"} {
		a := post(t, ts.URL+path, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		require.Contains(t, a.body, `"create_agent"`, path)
	}
	for _, path := range []string{"/mcp/nix", "/mcp/fleet/x", "/"} {
		a := post(t, ts.URL+path, initialize)
		require.Equal(t, 404, a.status, path)
		require.Equal(t, "application/json", a.header.Get("Content-Type"))
		require.Contains(t, a.body, `"available":"all, fleet, lifecycle`)
	}
}

func TestEveryRevisionOfTheProtocol(t *testing.T) {
	t.Parallel()
	ts := serve(t, newStub(), mcp.Config{})
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		a := post(t, ts.URL+"/mcp", strings.Replace(initialize, "2025-11-25", version, 1))
		require.Contains(t, a.body, `"protocolVersion":"`+version+`"`)
		id := a.header.Get("Mcp-Session-Id")
		require.Equal(t, 202, post(t, ts.URL+"/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "Mcp-Session-Id", id).status)
		a = post(t, ts.URL+"/mcp", showPapi, "Mcp-Session-Id", id, "MCP-Protocol-Version", version)
		require.False(t, a.result(t).IsError)
	}
	a := post(t, ts.URL+"/mcp", strings.Replace(initialize, "2025-11-25", "2077-01-01", 1), "MCP-Protocol-Version", "2077-01-01")
	require.Equal(t, 200, a.status, a.body)
	require.Contains(t, a.body, `"protocolVersion":"2025-11-25"`, "the server must offer a revision that it supports")
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":"t"}`
	modern := []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "create_agent", "Mcp-Session-Id", "forged"}
	a = post(t, ts.URL+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"create_agent","arguments":{"name":"m","project":"p","spec":"s"},`+meta+`}}`, modern...)
	require.False(t, a.result(t).IsError, a.body)
	require.Len(t, a.progress, eventsOfCall)
	require.Empty(t, a.header.Get("Mcp-Session-Id"))
	a = post(t, ts.URL+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{`+meta+`}}`, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "server/discover")
	require.Contains(t, a.body, `"2026-07-28"`)
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	ts := serve(t, newStub(), mcp.Config{MaxBody: 1 << 20})
	for _, c := range []struct {
		name, body string
		headers    []string
		status     int
		text       string
	}{
		{"too large", `{"x":"` + strings.Repeat("x", 1<<20) + `"}`, nil, 413, "the message is larger than 1048576 bytes"},
		{"invalid UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", nil, 400, "not valid UTF-8"},
		{"too deep", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + `}`, nil, 400, "nested deeper"},
		{"not JSON", `{"jsonrpc":`, nil, 400, "the message is not valid JSON"},
		{"nothing", ``, nil, 400, "the message is not valid JSON"},
		{"a batch", `[` + showPapi + `]`, nil, 400, "batches are not supported"},
		{"a string", `"x"`, nil, 400, "must be a JSON object"},
		{"forged session", showPapi, []string{"Mcp-Session-Id", "mcp-session-00000000-0000-4000-8000-000000000000"}, 404, "this session is unknown"},
		{"unknown revision", showPapi, []string{"MCP-Protocol-Version", "1999-01-01"}, 400, "Unsupported protocol version"},
		{"wrong content type", showPapi, []string{"Content-Type", "text/plain"}, 400, "application/json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := post(t, ts.URL+"/mcp", c.body, c.headers...)
			require.Equal(t, c.status, a.status, a.body)
			require.Contains(t, a.body, c.text)
			if c.status == 400 && !strings.Contains(c.name, "revision") && !strings.Contains(c.name, "type") {
				require.NotNil(t, a.Error, a.body)
				require.Contains(t, []int{-32700, -32600}, a.Error.Code)
			}
		})
	}
}

func TestOtherMethods(t *testing.T) {
	t.Parallel()
	ts := serve(t, newStub(), mcp.Config{})
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete, http.MethodOptions} {
		r, err := http.NewRequestWithContext(t.Context(), method, ts.URL+"/mcp", nil)
		require.NoError(t, err)
		r.Header.Set("Accept", "text/event-stream")
		r.Header.Set("Mcp-Session-Id", "forged")
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode, method)
		require.Equal(t, "POST", resp.Header.Get("Allow"))
	}
}
