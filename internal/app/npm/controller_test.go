package npm

import (
	"bufio"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// fleetTools are the tools that controllerScript calls, in its order.
var fleetTools = []string{"create_agent", "start_agent_task", "wait_tasks", "show_agent_task_history", "watch_fleet", "show_agent", "delete_agent"}

// controllerScript is the script for the model of a controller. It does the whole job of a controller, with one call that
// fails.
const controllerScript = `Run the fleet.
model: tool mcp__fleet__create_agent {"name":"worker","project":"shell","role":"operator","spec":"Do what the controller says"}
model: tool mcp__fleet__start_agent_task {"agent_name":"worker","task_description":"echo from the shell"}
model: tool mcp__fleet__wait_tasks {"task_ids":["${task.id}"],"timeout_seconds":50}
model: tool mcp__fleet__show_agent_task_history {"agent_name":"worker"}
model: tool mcp__fleet__watch_fleet {"task_id":"${task.id}","follow":true}
model: tool mcp__fleet__show_agent {"agent_name":"nobody"}
model: tool mcp__fleet__delete_agent {"agent_name":"worker"}
model: say The fleet has run.`

// TestClaudeAsController uses Claude Code as a client of Fleet over MCP, with each transport of Fleet.
func TestClaudeAsController(t *testing.T) {
	path := installClaude(t)
	h := newHome(t)
	s := serve(t, h)
	for name, server := range map[string]map[string]any{
		"http":     {"type": "http", "url": s.mcp()},
		"stdio":    {"command": program(t), "args": []string{"mcp", "--server", s.grpc}},
		"embedded": {"command": program(t), "args": []string{"mcp", "--embedded", "--data", h.path("embedded")}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(t)
			h.writeMCPConfig(t, "fleet", server)
			env := h.env(m.environ()...)
			prompt := strings.ReplaceAll(controllerScript, "worker", "worker-"+name)
			stdout, stderr, code := run(t, env, string(h), path, "-p", "--verbose", "--output-format", "stream-json",
				"--mcp-config", h.path("mcp.json"), "--strict-mcp-config", "--allowedTools", "mcp__fleet", "--", prompt)
			require.Zero(t, code, stdout+stderr)
			begin, end := firstAndLast(t, stdout)
			require.Equal(t, []mcpServer{{"fleet", "connected"}}, begin.Servers)
			require.Equal(t, "The fleet has run.", end.Result)

			// Check the tool results that the model received.
			requests := m.requestsWith("Run the fleet.")
			results := requests[len(requests)-1].results()
			require.Len(t, results, len(fleetTools))
			text := func(tool string) string { return results[slices.Index(fleetTools, tool)].Content.text() }
			require.Contains(t, text("create_agent"), `"status":"idle"`)
			require.Contains(t, text("start_agent_task"), `"source":"ai_controller"`)
			require.Contains(t, text("wait_tasks"), `"done":true`)
			require.Contains(t, text("show_agent_task_history"), `"summary":"from the shell"`)
			require.Contains(t, text("show_agent_task_history"), `"total_count":1`)
			require.Contains(t, text("watch_fleet"), `"task_ended"`)
			require.Contains(t, text("show_agent"), `"error":"AGENT_NOT_FOUND"`)
			require.Contains(t, text("delete_agent"), `"deleted_agent"`)
			for i, r := range results {
				require.Equal(t, fleetTools[i] == "show_agent", r.IsError, "%s: %s", fleetTools[i], r.Content.text())
			}
			if name == "embedded" {
				return
			}
			// Check the task that the controller started.
			task := taskID(t, text("start_agent_task"))
			shown, err := s.api.ShowTask(t.Context(), &fleetv1.ShowTaskRequest{TaskId: task, IncludePayload: true})
			require.NoError(t, err)
			require.Equal(t, fleetv1.Task_completed, shown.GetTask().GetStatus())
			require.Equal(t, fleetv1.Task_ai_controller, shown.GetTask().GetSource())
			require.Equal(t, "from the shell", shown.GetTask().GetSummary())
		})
	}
	r, err := s.api.ListAgents(t.Context(), &fleetv1.ListAgentsRequest{})
	require.NoError(t, err)
	require.Empty(t, r.GetAgents())
}

// streamEvent is an event in the stream-json output of Claude Code.
type streamEvent struct {
	Type    string
	Result  string
	Servers []mcpServer `json:"mcp_servers"`
}

type mcpServer struct{ Name, Status string }

// firstAndLast returns the first and the last event of the stream-json output.
func firstAndLast(t *testing.T, stdout string) (first, last streamEvent) {
	t.Helper()
	lines := bufio.NewScanner(strings.NewReader(stdout))
	lines.Buffer(nil, 1<<24)
	for n := 0; lines.Scan(); n++ {
		last = streamEvent{}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &last), lines.Text())
		if n == 0 {
			first = last
		}
	}
	require.NoError(t, lines.Err())
	return first, last
}

// taskID returns the id of the task in the result of start_agent_task.
func taskID(t *testing.T, text string) string {
	t.Helper()
	var r struct{ Task struct{ ID string } }
	require.NoError(t, json.Unmarshal([]byte(text), &r), text)
	return r.Task.ID
}
