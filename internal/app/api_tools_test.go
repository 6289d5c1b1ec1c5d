package app

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/stretchr/testify/require"

	"fleet/internal/face/facetest"
	fleetmcp "fleet/internal/face/mcp"
	"fleet/internal/waittest"
)

// toolNames returns the sorted names of the tools that the holder of the token sees in the toolset. It checks that the lists over HTTP
// and of `fleet mcp` are the same.
func (f *testFleet) toolNames(t *testing.T, token, toolset string) (names []string) {
	t.Helper()
	c, err := f.mcpClient(t.Context(), token, toolset)
	require.NoError(t, err)
	list, err := c.ListTools(t.Context(), mcp.ListToolsRequest{})
	require.NoError(t, err)
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	require.Equal(t, names, f.stdioToolNames(t, token, toolset), "%s of %s on stdio", toolset, token)
	return names
}

// stdioToolNames returns the sorted names of the tools that `fleet mcp` lists for the holder of the token.
func (f *testFleet) stdioToolNames(t *testing.T, token, toolset string) (names []string) {
	t.Helper()
	in := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\n")
	var out bytes.Buffer
	require.NoError(t, fleetmcp.Stdio(f.authContext(t.Context(), token), f.conn, fleetmcp.Config{Toolset: toolset, Tools: []string{"*"}, Rights: rightsOver(f.conn, waittest.Limit)}, in, &out))
	var answer struct {
		Result struct{ Tools []struct{ Name string } }
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &answer), out.String())
	for _, tool := range answer.Result.Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	return names
}

// TestToolsShown checks that the list of a toolset has exactly the tools that the caller may call, and that the list of all toolsets
// has no others.
func TestToolsShown(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{
		"reader": {Scope: "read"}, "runner": {}, "root": {Admin: true},
		"restricted": {Projects: []string{"Setup"}}, "restricted-reader": {Scope: "read", Projects: []string{"Setup"}},
	}})
	for caller := range f.secrets {
		allowed := map[string][]string{}
		for _, name := range slices.Sorted(maps.Keys(methods)) {
			m := methods[name]
			if !hasTool(m) || toolsetOf(m) == "" {
				continue
			}
			r := f.call(t, "mcp", name, caller, missingTarget.arguments(t, m))
			// Other errors are about the arguments, for example an agent of a registry that is not allowed.
			if r.err == nil || r.err.Reason != "PERMISSION_DENIED" || !regexp.MustCompile("his call needs scope|is valid for agents of the projects").MatchString(r.err.Message) {
				allowed[toolsetOf(m)] = append(allowed[toolsetOf(m)], facetest.ToolName(m.Name()))
			}
		}
		var all []string
		for _, toolset := range []string{"fleet", "lifecycle", "providers", "sessions", "subagents"} {
			slices.Sort(allowed[toolset])
			require.Equal(t, allowed[toolset], f.toolNames(t, caller, toolset), "%s of %s", toolset, caller)
			all = append(all, allowed[toolset]...)
		}
		require.Subset(t, all, f.toolNames(t, caller, "all"), caller)
	}
	require.Contains(t, f.toolNames(t, "root", "fleet"), "list_audit")
	require.NotContains(t, f.toolNames(t, "runner", "fleet"), "list_audit")
	require.NotContains(t, f.toolNames(t, "reader", "fleet"), "create_agent")
	require.Empty(t, f.toolNames(t, "restricted", "lifecycle"))
	require.NotEmpty(t, f.toolNames(t, "", "fleet"), "the list must not be empty for a caller without a token")
}
