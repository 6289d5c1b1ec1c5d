package providers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/toolset/providers"
)

// httpMember is the part of a tool's specification that makes it an HTTP tool.
const httpMember = `"http": {"url": "https://tools.example.com/calc"}`

// toolSpec returns the text as a tool's specification. It requires valid JSON.
func toolSpec(t testing.TB, text string) json.RawMessage {
	t.Helper()
	require.True(t, json.Valid([]byte(text)), text)
	return json.RawMessage(text)
}

// register registers a tool for the principal, and requires that it succeeds.
func (h *harness) register(principal, name, agent, text string) *providers.Registration {
	h.t.Helper()
	r, err := h.Register(h.as(principal), providers.RegisterRequest{Name: name, Agent: agent, Spec: toolSpec(h.t, text)})
	require.NoError(h.t, err)
	h.requireNoKeys(r)
	return r
}

// tools runs a request of the principal on the agent. It returns the tools that the agent got: their descriptions by name.
func (h *harness) tools(principal, agent string) map[string]string {
	h.t.Helper()
	a, err := h.Execute(h.as(principal), providers.ExecuteRequest{Agent: agent, Prompt: "p"})
	require.NoError(h.t, err)
	require.Empty(h.t, a.Error)
	r := h.agentConfig()
	out := map[string]string{}
	for i, t := range r.Tools {
		out[t.Name] = t.Description
		require.Equal(h.t, t.Name, r.Allow[i], "the agent must be allowed to use the tool")
	}
	return out
}

// TestRegister registers each kind of tool and checks what the agents get.
func TestRegister(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(c *providers.Config) { c.ToolEnv = []string{"WEATHER_TOKEN", "NOT_SET"} })
	forAll := h.register("root", "calculate", "", `{"description": " Adds numbers ", "parameters": {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}, "http": {"url": "https://tools.example.com/calc", "method": "put", "headers": {"Authorization": "Bearer ${WEATHER_TOKEN}", "X-Version": "2"}}}`)
	require.Empty(t, forAll.Warnings)
	require.IsIncreasing(t, forAll.Agents)
	require.Subset(t, forAll.Agents, []string{"claude", "custom", "ollama", "gemini"})
	for _, cli := range []string{"claude-code", "mycli"} {
		require.NotContains(t, forAll.Agents, cli, "a program must not get registered tools")
	}
	forClaude := h.register("root", "look-up", "Claude", `{"description": "Looks something up", "mcp": {"server": {"url": "http://127.0.0.1:9000/mcp", "headers": {"X-Api-Key": "${NOT_SET}"}}, "tool": "search"}}`)
	require.Equal(t, []string{"claude"}, forClaude.Agents)
	require.Len(t, forClaude.Warnings, 1)
	require.Contains(t, forClaude.Warnings[0], "NOT_SET is not set")
	h.register("root", "run_it", "", `{"description": "Runs", "command": ["/bin/cat", "-"], "parameters": null}`)
	h.register("root", "program", "custom", `{"description": "Runs a server", "mcp": {"server": {"name": "srv", "command": "srv", "args": ["--x"], "env": {"MODE": "fast"}}}}`)

	require.Equal(t, map[string]string{"calculate": "Adds numbers", "look-up": "Looks something up", "run_it": "Runs"}, h.tools("root", "claude"))
	tools := h.agentConfig().Tools
	require.Equal(t, "PUT", tools[0].HTTP.Method)
	require.JSONEq(t, `{"type":"object","properties":{"a":{"type":"number"}},"required":["a"]}`, string(tools[0].Parameters))
	require.Equal(t, "Bearer ${WEATHER_TOKEN}", tools[0].HTTP.Headers["Authorization"], "the stored tool must name the variable and not contain its value")
	require.Equal(t, &fleet.MCPTool{Tool: "search", Server: fleet.MCPServer{Name: "look-up", URL: "http://127.0.0.1:9000/mcp", Headers: map[string]string{"X-Api-Key": "${NOT_SET}"}}}, tools[1].MCP)
	require.JSONEq(t, `{"type":"object","properties":{}}`, string(tools[2].Parameters))
	require.Equal(t, map[string]string{"calculate": "Adds numbers", "run_it": "Runs", "program": "Runs a server"}, h.tools("root", "custom"))
	require.Equal(t, "srv", h.agentConfig().Tools[2].MCP.Server.Name)
	require.Empty(t, h.tools("root", "claude-code"))
	require.Empty(t, h.tools("alice", "claude"), "tools of another principal must not be used")
}

// TestRegisterAgain checks that a registration replaces the previous one and says so, and that a tool for one agent
// takes precedence over one for all.
func TestRegisterAgain(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	specText := func(description string) string {
		return fmt.Sprintf(`{"description": %q, %s}`, description, httpMember)
	}
	require.Empty(t, h.register("alice", "calc", "", specText("one")).Warnings)
	replacement := h.register("alice", "calc", "", specText("two"))
	require.Len(t, replacement.Warnings, 1)
	require.Contains(t, replacement.Warnings[0], `The tool "calc" existed already and was replaced`)
	forClaude := h.register("alice", "calc", "claude", specText("for claude"))
	require.Len(t, forClaude.Warnings, 1)
	require.Contains(t, forClaude.Warnings[0], `for all agents: the agent "claude" uses this tool instead`)
	require.Contains(t, h.register("alice", "calc", "claude", specText("for claude again")).Warnings[0], `of the agent "claude" existed already`)
	require.Equal(t, map[string]string{"calc": "for claude again"}, h.tools("alice", "claude"))
	require.Equal(t, map[string]string{"calc": "two"}, h.tools("alice", "custom"))
	require.Contains(t, strings.Join(h.register("alice", "calc", "", specText("three")).Warnings, "\n"), `The agent "claude" has its own tool "calc", and keeps that tool`)
	require.Empty(t, h.register("bob", "calc", "", specText("bob's")).Warnings, "tools of another principal must not cause a warning")
	require.Equal(t, map[string]string{"calc": "three"}, h.tools("alice", "custom"))
}

func TestRegisterRequestID(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	r := providers.RegisterRequest{Name: "calc", Spec: toolSpec(t, `{"description": "one", `+httpMember+`}`), RequestID: "a"}
	first, err := h.Register(h.as("alice"), r)
	require.NoError(t, err)
	h.register("alice", "calc", "", `{"description": "two", `+httpMember+`}`)
	again, err := h.Register(h.as("alice"), r)
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.Equal(t, map[string]string{"calc": "two"}, h.tools("alice", "claude"), "the repeated request must not register the tool again")
	r.Agent = "claude"
	_, err = h.Register(h.as("alice"), r)
	h.requireReason(err, fleet.ReasonInvalidArgument, "request_id")
	r.RequestID = strings.Repeat("x", 129)
	_, err = h.Register(h.as("alice"), r)
	h.requireReason(err, fleet.ReasonInvalidArgument, "request_id")
}

func TestRegisterRefuses(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(c *providers.Config) { c.ToolEnv = []string{"WEATHER_TOKEN"} })
	const good = `{"description": "d", ` + httpMember + `}`
	specWith := func(what string) string { return `{"description": "d", ` + what + `}` }
	specWithParameters := func(schema string) string { return specWith(`"parameters": ` + schema + `, ` + httpMember) }
	for _, c := range []struct{ name, agent, text, field, says string }{
		{"", "", good, "tool_name", `tool_name is ""`},
		{"2fast", "", good, "tool_name", "use a letter"},
		{"a b", "", good, "tool_name", "use a letter"},
		{"é", "", good, "tool_name", "use a letter"},
		{strings.Repeat("x", 65), "", good, "tool_name", "up to 63"},
		{"agent_complete", "", good, "tool_name", "a tool that Fleet gives to agents"},
		{"calc", "", ``, "tool_spec", "is required"},
		{"calc", "", `[]`, "tool_spec", "cannot be used"},
		{"calc", "", `null`, "tool_spec.description", "is missing"},
		{"calc", "", `{}`, "tool_spec.description", "is missing"},
		{"calc", "", specWith(`"function": {}, ` + httpMember), "tool_spec", `unknown field "function"`},
		{"calc", "", specWith(`"description": 7, ` + httpMember), "tool_spec", "description"},
		{"calc", "", specWith(`"x": "` + strings.Repeat("x", 64<<10) + `"`), "tool_spec", "the limit is 65536"},
		{"calc", "", `{"description": "` + strings.Repeat("x", 5000) + `", ` + httpMember + `}`, "tool_spec.description", "longer than 4096"},
		{"calc", "", specWith(httpMember + `, "command": ["x"]`), "tool_spec", "has 2 of http, mcp and command"},
		// Schemas.
		{"calc", "", specWithParameters(`"string"`), "tool_spec.parameters", "not a JSON Schema of an object"},
		{"calc", "", specWithParameters(`{"type": "string"}`), "tool_spec.parameters", "not a JSON Schema of an object"},
		{"calc", "", specWithParameters(`{"type": "object", "required": "a"}`), "tool_spec.parameters", "/required"},
		{"calc", "", specWithParameters(`{"type": "object", "properties": []}`), "tool_spec.parameters", "/properties"},
		{"calc", "", specWithParameters(`{"type": "object", "properties": {"a": {"pattern": "("}}}`), "tool_spec.parameters", "not a JSON Schema"},
		{"calc", "", specWithParameters(`{"type": "object", "$ref": "file:///etc/passwd"}`), "tool_spec.parameters", "put that document under $defs"},
		{"calc", "", specWithParameters(`{"type": "object", "$ref": "http://127.0.0.1:1/x"}`), "tool_spec.parameters", "put that document under $defs"},
		{"calc", "", specWithParameters(`{"type": "object", "$schema": "http://evil.example.com/schema"}`), "tool_spec.parameters", "not a JSON Schema"},
		{"calc", "", specWithParameters(`{"type": "object", "$ref": "#/$defs/none"}`), "tool_spec.parameters", "not a JSON Schema"},
		// Addresses.
		{"calc", "", specWith(`"http": {}`), "tool_spec.http.url", "not an http or https URL"},
		{"calc", "", specWith(`"http": {"url": "file:///etc/passwd"}`), "tool_spec.http.url", "not an http or https URL"},
		{"calc", "", specWith(`"http": {"url": "https://"}`), "tool_spec.http.url", "not an http or https URL"},
		{"calc", "", specWith(`"http": {"url": "https://a b"}`), "tool_spec.http.url", "not an http or https URL"},
		{"calc", "", specWith(`"http": {"url": "https://u:p@x.example.com"}`), "tool_spec.http.url", "a user or a password"},
		{"calc", "", specWith(`"http": {"url": "https://x.example.com/#f"}`), "tool_spec.http.url", "fragment"},
		{"calc", "", specWith(`"http": {"url": "https://x.example.com/?k=${WEATHER_TOKEN}"}`), "tool_spec.http.url", "allowed only in headers"},
		{"calc", "", specWith(`"http": {"url": "https://x.example.com", "method": "GET"}`), "tool_spec.http.method", "POST, PUT or PATCH"},
		// Headers and secrets.
		{"calc", "", specWith(`"http": {"url": "https://x.example.com", "headers": {"A B": "x"}}`), "tool_spec.http.headers", "not a valid name of a header"},
		{"calc", "", specWith(`"http": {"url": "https://x.example.com", "headers": {"host": "x"}}`), "tool_spec.http.headers", "Fleet sets itself"},
		{"calc", "", specWith(`"http": {"url": "https://x.example.com", "headers": {"X-A": "a\r\nB: c"}}`), "tool_spec.http.headers", "single line"},
		{"calc", "", specWith(`"http": {"url": "https://x.example.com", "headers": {"Authorization": "Bearer abc"}}`), "tool_spec.http.headers", "looks like a secret"},
		{"calc", "", specWith(`"http": {"url": "https://x.example.com", "headers": {"X": "${A B}"}}`), "tool_spec.http.headers", "name of a variable"},
		{"calc", "", specWith(`"http": {"url": "https://x.example.com", "headers": {"X": "${FLEET_TOKEN}"}}`), "tool_spec.http.headers", "a variable of Fleet itself"},
		// MCP servers and programs.
		{"calc", "", specWith(`"mcp": {}`), "tool_spec.mcp.server", "both command and url, or neither"},
		{"calc", "", specWith(`"mcp": {"server": {"url": "https://x.example.com", "command": "x"}}`), "tool_spec.mcp.server", "both command and url, or neither"},
		{"calc", "", specWith(`"mcp": {"server": {"url": "https://x.example.com", "args": ["x"]}}`), "tool_spec.mcp.server", "has a url, and also"},
		{"calc", "", specWith(`"mcp": {"server": {"command": "x", "headers": {"a": "b"}}}`), "tool_spec.mcp.server", "has a command, and also"},
		{"calc", "", specWith(`"mcp": {"server": {"url": "ws://x.example.com"}}`), "tool_spec.mcp.server.url", "not an http or https URL"},
		{"calc", "", specWith(`"mcp": {"server": {"name": "a/b", "url": "https://x.example.com"}}`), "tool_spec.mcp.server.name", "use a letter"},
		{"calc", "", specWith(`"mcp": {"server": {"command": "x", "env": {"CODER_X": "1"}}}`), "tool_spec.mcp.server.env", "not a valid name of a variable"},
		{"calc", "", specWith(`"mcp": {"server": {"command": "x", "env": {"MY_TOKEN": "abc"}}}`), "tool_spec.mcp.server.env", "looks like a secret"},
		{"calc", "", specWith(`"mcp": {"server": {"command": "x"}, "tool": "a\u0000"}`), "tool_spec.mcp.tool", "not a valid name of a tool"},
		{"calc", "", specWith(`"command": []`), "tool_spec.command", "1 to 64"},
		{"calc", "", specWith(`"command": [" "]`), "tool_spec.command", "1 to 64"},
		{"calc", "", specWith(`"command": "rm -rf /"`), "tool_spec", "cannot be used"},
		{"calc", "", specWith(`"command": ["a\u0000"]`), "tool_spec.command", "zero byte"},
	} {
		_, err := h.Register(h.as("root"), providers.RegisterRequest{Name: c.name, Agent: c.agent, Spec: json.RawMessage(c.text)})
		e := h.requireReason(err, fleet.ReasonInvalidArgument, c.field)
		require.Contains(t, e.Message, c.says, c.text)
		require.Less(t, len(e.Message), 1000, c.field)
	}
	require.Empty(t, h.tools("root", "claude"))
}

// TestRegisterNeedsAnAdmin checks which tools only an admin may register, and which tools everybody may register.
func TestRegisterNeedsAnAdmin(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(c *providers.Config) {
		c.ToolEnv, c.ToolHosts = []string{"WEATHER_TOKEN"}, []string{"10.0.0.7", "Tools.Internal"}
	})
	register := func(principal, implementation string) error {
		_, err := h.Register(h.as(principal), providers.RegisterRequest{Name: "calc", Spec: toolSpec(t, `{"description": "d", `+implementation+`}`)})
		return err
	}
	httpTool := func(url string) string { return `"http": {"url": "` + url + `"}` }
	for _, what := range []string{
		`"command": ["/bin/cat"]`, `"mcp": {"server": {"command": "srv"}}`, `"mcp": {"server": {"url": "http://[::1]/mcp"}}`,
		httpTool("http://localhost:8101/v1/agents"), httpTool("http://LOCALHOST."), httpTool("http://127.0.0.1"), httpTool("http://127.1"), httpTool("http://2130706433"),
		httpTool("http://[::ffff:127.0.0.1]/"), httpTool("http://0.0.0.0"), httpTool("http://169.254.169.254/latest/meta-data"), httpTool("http://10.1.2.3"),
		httpTool("http://192.168.0.1"), httpTool("http://[fd00::1]"), httpTool("http://db"), httpTool("http://db.internal"), httpTool("http://printer.local"), httpTool("http://x.localhost"),
	} {
		err := register("alice", what)
		var e *fleet.Error
		require.ErrorAs(t, err, &e, what)
		require.Equal(t, fleet.ReasonPermissionDenied, e.Reason, what)
		require.Contains(t, e.Message, "admin", what)
		require.NoError(t, register("root", what), what)
	}
	for _, what := range []string{
		httpTool("https://tools.example.com"), httpTool("https://8.8.8.8/x"), httpTool("http://10.0.0.7:99/x"), httpTool("http://tools.internal"), httpTool("https://[2001:4860:4860::8888]/"),
		`"http": {"url": "https://tools.example.com", "headers": {"Authorization": "Bearer ${WEATHER_TOKEN}"}}`,
	} {
		require.NoError(t, register("alice", what), what)
	}

	// A principal that is no longer an admin loses the tools that only an admin may have.
	admin := fleet.WithPrincipal(t.Context(), fleet.Principal{Name: "alice", Kind: fleet.KindHuman, Scope: fleet.ScopeAdmin})
	_, err := h.Register(admin, providers.RegisterRequest{Name: "shell", Spec: toolSpec(t, `{"description": "d", "command": ["bash"]}`)})
	require.NoError(t, err)
	require.Contains(t, h.tools("alice", "claude"), "calc")
	require.NotContains(t, h.tools("alice", "claude"), "shell")
	a := h.execute(providers.ExecuteRequest{Agent: "claude", Prompt: "p"})
	require.Len(t, a.Warnings, 1)
	require.Contains(t, a.Warnings[0], `The tool "shell" is left out`)
	_, err = h.Register(context.Background(), providers.RegisterRequest{Name: "x"})
	require.Equal(t, fleet.ReasonUnauthenticated, fleet.ReasonOf(err))
}

func TestRegisterLimit(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(c *providers.Config) { c.MaxTools = 2 })
	const text = `{"description": "d", ` + httpMember + `}`
	h.register("alice", "a", "", text)
	h.register("alice", "b", "", text)
	_, err := h.Register(h.as("alice"), providers.RegisterRequest{Name: "c", Spec: toolSpec(t, text)})
	require.Equal(t, "registered tools", h.requireReason(err, fleet.ReasonLimitReached, "").Metadata["limit"])
	h.register("alice", "b", "", text)
	h.register("bob", "c", "", text)
}

func FuzzToolSpec(f *testing.F) {
	for _, s := range []string{`{}`, `{"description":"d","parameters":{"type":"object"},` + httpMember + `}`, `{"description":"d","command":["x"]}`, `[`, "\xff"} {
		f.Add("name", s)
	}
	s, err := providers.New(nil, &fakeProbes{}, providers.Config{})
	require.NoError(f, err)
	ctx := fleet.WithPrincipal(context.Background(), fleet.Principal{Name: "alice"})
	f.Fuzz(func(t *testing.T, name, text string) {
		// The agent does not exist, so nothing is stored: the call must be refused and must not crash.
		_, err := s.Register(ctx, providers.RegisterRequest{Name: name, Spec: json.RawMessage(text), Agent: "nobody"})
		reason := fleet.ReasonOf(err)
		require.True(t, reason == fleet.ReasonInvalidArgument || reason == fleet.ReasonPermissionDenied, "%v", err)
	})
}
