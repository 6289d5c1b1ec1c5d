//go:build cgo

package run_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
	"fleet/internal/place/placetest/model"
	"fleet/internal/waittest"
)

// mcpServerArgument is an argument that makes the test binary act as an MCP server.
const mcpServerArgument = "be-an-mcp-server"

// terms are the arguments of the tool add.
type terms struct {
	A int `json:"a"`
	B int `json:"b"`
}

// calculator returns an MCP server with the tools add and env.
func calculator() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "calculator", Version: "1"}, &mcp.ServerOptions{Instructions: "Calculate with care."})
	mcp.AddTool(s, &mcp.Tool{Name: "add", Description: "Adds."}, func(_ context.Context, _ *mcp.CallToolRequest, in terms) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strconv.Itoa(in.A + in.B)}}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "env", Description: "Shows the environment."}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.Join(os.Environ(), " ")}}}, nil, nil
	})
	return s
}

// TestMCPServers checks MCP servers of the definition, of the configuration and of a registered tool, and which variables they
// get.
func TestMCPServers(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	var mu sync.Mutex
	var tokens []string
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return calculator() }, nil)
	s := model.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		tokens = append(tokens, r.Header.Get("X-Token"))
		mu.Unlock()
		handler.ServeHTTP(w, r)
	}))
	d := newFixture(t, fleet.AgentConfig{
		Document: fmt.Sprintf(`
models:
  stub: {provider: anthropic, model: stub-large, base_url: "MODEL"}
agents:
  root:
    model: stub
    instruction: Calculate.
    toolsets:
      - {type: mcp, name: calc, command: %q, args: [%s], env: {MINE: "${TOOL_TOKEN}"}}
      - {type: mcp, name: far, remote: {url: %q, headers: {X-Token: "${env.TOOL_TOKEN}"}}, tools: [far_add]}
`, self, mcpServerArgument, s.URL),
		MCPServers: []fleet.MCPServer{{Name: "own", URL: s.URL, Headers: map[string]string{"X-Token": "${TOOL_TOKEN}"}}},
		Tools: []fleet.Tool{{
			Name: "sum", Description: "Sums.", MCP: &fleet.MCPTool{Server: fleet.MCPServer{Name: "x", Command: self, Args: []string{mcpServerArgument}}, Tool: "add"},
		}},
	}, func(c *local.Config) {
		c.Environ = environment("TOOL_TOKEN=tool-token-1", "FLEET_SECRET=not for programs", "OTHER=not for programs")
	})
	_, o := d.runTask(`model: tools [{"name":"calc_add","input":{"a":1,"b":2}},{"name":"far_add","input":{"a":3,"b":4}},{"name":"own_add","input":{"a":5,"b":6}},` +
		`{"name":"sum","input":{"a":7,"b":8}},{"name":"calc_env","input":{}}]` + "\nmodel: say ok")
	require.Equal(t, "ok", o.Summary, o.Reason)
	results := d.results()
	require.Equal(t, []string{"3", "7", "11", "15"}, results[:4])
	require.Contains(t, results[4], "MINE=[hidden]")
	require.NotContains(t, results[4], "not for programs")
	require.NotContains(t, results[4], stubKey)
	request := d.model.Requests()[0]
	require.NotContains(t, request.ToolNames(), "far_env")
	require.Contains(t, request.System, "Calculate with care.")
	mu.Lock()
	defer mu.Unlock()
	require.Contains(t, tokens, "tool-token-1")
	require.NotContains(t, tokens, "")
}

// TestHangingMCPServer checks that an MCP server that does not answer is killed, and that the run continues without its
// tools.
func TestHangingMCPServer(t *testing.T) {
	t.Parallel()
	var text []byte
	waittest.WithGrowingLimit(t, 300*time.Millisecond, func(limit time.Duration) (begun bool) {
		d := newFixture(t, fleet.AgentConfig{MCPServers: []fleet.MCPServer{{Name: "slow", Command: "sh", Args: []string{"-c", "echo $$ > pid; sleep 1000 & wait"}}}},
			func(c *local.Config) { c.Models.Settings.ToolTimeout = limit })
		all, o := d.runTask("hello")
		require.Equal(t, "You said: hello", o.Summary, o.Reason)
		require.Contains(t, all[0].Text, `the MCP server "slow" did not start, so its tools are missing: it did not answer in time`)
		require.NotContains(t, all[0].Text, "guard")
		require.Contains(t, string(all[0].Data), `"type":"warning"`)
		text, _ = os.ReadFile(filepath.Join(d.agent.Location, "pid"))
		return len(text) > 0
	})
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	waittest.Until(t, "a process group gives no signal when it ends", func() bool { return syscall.Kill(-pid, 0) != nil })
}

// TestMissingToolsets checks that an agent lacks only the tools of a toolset that cannot be created, and that one warning says
// so.
func TestMissingToolsets(t *testing.T) {
	t.Parallel()
	for name, toolset := range map[string]string{
		"the toolset memory":                       "{type: memory, path: ../outside.db}",
		`the MCP server "docker:no-such-server-1"`: `{type: mcp, ref: "docker:no-such-server-1"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newFixture(t, fleet.AgentConfig{Document: "models: {stub: {provider: anthropic, model: stub-large, base_url: MODEL}}\n" +
				"agents: {root: {model: stub, toolsets: [{type: think}, " + toolset + "]}}"}, nil)
			all, o := d.runTask("model: tool think {\"thought\":\"x\"}\nmodel: say done")
			require.Equal(t, "done", o.Summary, o.Reason)
			require.Equal(t, 1, strings.Count(fmt.Sprint(all), "warning: "))
			require.Contains(t, all[0].Text, "warning: ")
			require.Contains(t, string(all[0].Data), strings.ReplaceAll(name, `"`, `\"`)+" did not start, so its tools are missing")
			require.Equal(t, []string{"think"}, d.model.Requests()[0].ToolNames())
		})
	}
}

// TestToolArguments checks that a registered tool is called only with arguments that match its parameters.
func TestToolArguments(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	parameters := []byte(`{"type":"object","properties":{"name":{"type":"string","pattern":"^(?!root)"}},"required":["name"]}`)
	d := newFixture(t, fleet.AgentConfig{Tools: []fleet.Tool{
		{Name: "greet", Description: "Greets.", Parameters: parameters, Command: []string{"cat"}},
		{Name: "sum", Description: "Sums.", MCP: &fleet.MCPTool{Server: fleet.MCPServer{Name: "x", Command: self, Args: []string{mcpServerArgument}}, Tool: "add"}},
	}}, nil)
	results := d.callTools("greet", map[string]any{"name": "Ann"}, "greet", map[string]any{}, "greet", map[string]any{"name": "root"}, "greet", map[string]any{"name": 1},
		"sum", map[string]any{"a": 1, "b": 2}, "sum", map[string]any{"a": "one", "b": 2})
	require.JSONEq(t, `{"name":"Ann"}`, results[0])
	require.Equal(t, "3", results[4])
	for i, want := range map[int]string{1: "missing property 'name'", 2: "does not match pattern", 3: "at /name", 5: "at /a"} {
		require.Contains(t, results[i], "The arguments do not match the tool's parameters: at /")
		require.Contains(t, results[i], want)
	}
}

// TestMCPServerInside checks which agents can use an MCP server at a private address: those whose definition comes from the
// operator, and those with a registered tool and the host in PrivateHosts.
func TestMCPServerInside(t *testing.T) {
	t.Parallel()
	s := model.Serve(t, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return calculator() }, nil))
	document := fmt.Sprintf("models: {stub: {provider: anthropic, model: stub-large, base_url: MODEL}}\n"+
		"agents: {root: {model: stub, toolsets: [{type: mcp, name: far, remote: {url: %q}}]}}", s.URL)
	tool := fleet.Tool{Name: "sum", Description: "Sums.", MCP: &fleet.MCPTool{Server: fleet.MCPServer{Name: "x", URL: s.URL}, Tool: "add"}}
	for name, c := range map[string]struct {
		agentConfig fleet.AgentConfig
		want        []string
	}{
		"the operator's definition": {fleet.AgentConfig{Document: document}, []string{"far_add", "far_env"}},
		"a pulled definition":       {fleet.AgentConfig{Document: document, UntrustedDocument: true}, nil},
		"a tool":                    {fleet.AgentConfig{Tools: []fleet.Tool{tool}}, nil},
		"a tool with its host":      {fleet.AgentConfig{Tools: []fleet.Tool{tool}, PrivateHosts: []string{"127.0.0.1"}}, []string{"sum"}},
	} {
		d := newFixture(t, c.agentConfig, nil)
		all, o := d.runTask("hello")
		require.Equal(t, "You said: hello", o.Summary, "%s: %s", name, o.Reason)
		offered := slices.DeleteFunc(d.model.Requests()[0].ToolNames(), func(n string) bool { return n == "think" })
		require.ElementsMatch(t, c.want, offered, name)
		if c.want == nil {
			require.Contains(t, fmt.Sprint(all), "not a public address", name)
		}
	}
}
