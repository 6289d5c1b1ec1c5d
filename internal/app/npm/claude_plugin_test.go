package npm

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// pluginOfDocs returns the directory of the plugin in the documentation.
func pluginOfDocs(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(root, "docs", "use", "claude-code"))
	require.NoError(t, err)
	return dir
}

// TestClaudePlugin loads the plugin of the documentation in the real Claude Code. Claude Code must see its skill, its commands, its MCP server, and the
// prompts of that MCP server. Its tools must act on the running Fleet server.
func TestClaudePlugin(t *testing.T) {
	path := installClaude(t)
	h := newHome(t)
	s := serve(t, h)
	_, err := s.api.CreateAgent(t.Context(), &fleetv1.CreateAgentRequest{Name: "papi", Project: "shell", Spec: "Be read"})
	require.NoError(t, err)
	m := newModel(t)
	env := h.env(append(m.environ(), "FLEET_PROGRAM="+program(t), "FLEET_SERVER="+s.grpc)...)
	plugin := pluginOfDocs(t)
	stdout, stderr, code := run(t, env, string(h), path, "plugin", "validate", "--strict", plugin)
	require.Zero(t, code, stdout+stderr)

	stdout, stderr, code = run(t, env, string(h), path, "-p", "--verbose", "--output-format", "stream-json", "--plugin-dir", plugin,
		"--allowedTools", "mcp__plugin_fleet_fleet", "--", "Look at the fleet.\nmodel: tool Skill {\"skill\":\"fleet:orchestrate\"}\nmodel: tool mcp__plugin_fleet_fleet__show_fleet {}\nmodel: tool ReadMcpResourceTool {\"server\":\"plugin:fleet:fleet\",\"uri\":\"fleet://agent/papi\"}\nmodel: say Seen.")
	require.Zero(t, code, stdout+stderr)
	first, _, _ := strings.Cut(stdout, "\n")
	var begin struct {
		Servers  []mcpServer `json:"mcp_servers"`
		Tools    []string
		Skills   []string
		Commands []string `json:"slash_commands"`
	}
	require.NoError(t, json.Unmarshal([]byte(first), &begin))
	require.Equal(t, []mcpServer{{"plugin:fleet:fleet", "connected"}}, begin.Servers)
	require.Contains(t, begin.Skills, "fleet:orchestrate")
	require.Subset(t, begin.Commands, []string{"fleet:plan", "fleet:review", "fleet:status", "mcp__plugin_fleet_fleet__plan", "mcp__plugin_fleet_fleet__review", "mcp__plugin_fleet_fleet__status"})
	requests := m.requestsWith("Look at the fleet.")
	results := requests[len(requests)-1].results()
	require.Len(t, results, 3)
	require.False(t, results[0].IsError, results[0].Content.text())
	require.Contains(t, results[1].Content.text(), `"agents":1`)
	require.Contains(t, results[2].Content.text(), `\"status\":\"idle\"`)
	require.Contains(t, requests[len(requests)-1].conversationText(), "Run a fleet of agents", "the model must have read the skill")
}
