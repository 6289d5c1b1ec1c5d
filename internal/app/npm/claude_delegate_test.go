package npm

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestClaudeDelegates lets a Claude Code agent delegate two tasks with its own tools and end its turn. It must continue the same conversation with
// the results, and see only the tools that its role allows.
func TestClaudeDelegates(t *testing.T) {
	c := newClaudeFleet(t,
		role{"name": "manager", "model": pricedModel, "default": true, "delegate": map[string]any{"roles": []string{"coder"}, "may": []string{"start"}}},
		role{"name": "coder", "model": pricedModel})
	c.create(t, "boss", "manager")
	part := `{"project":"code","role":"coder","new_agent":true,"task_description":"model: hang parts"}`
	id := c.start(t, "boss", "Split it.", "model: tool mcp__fleet__queue_task "+part, "model: tool mcp__fleet__queue_task "+part, "model: say I wait")
	c.waitForEvent(t, id, func(e *fleetv1.Event) bool {
		return e.GetType() == fleetv1.Event_task_queued && strings.Contains(e.GetText(), "waits for 2 tasks")
	})
	shown, err := c.api.ShowAgent(t.Context(), &fleetv1.ShowAgentRequest{AgentName: "boss"})
	require.NoError(t, err)
	require.Equal(t, fleetv1.Agent_idle, shown.GetAgent().GetStatus())
	close(c.gate("parts").open)
	done := c.wait(t, id)
	require.Equal(t, fleetv1.Task_completed, done.GetStatus(), done.GetReason())
	requests := c.requestsWith("Split it.")
	require.Len(t, requests, 4, "three answers before the results, and one after both")
	require.Equal(t, 2, strings.Count(requests[3].conversationText(), "# Went on"), requests[3].conversationText())
	require.Empty(t, done.GetConversationLost())
	require.EqualValues(t, 2, done.GetDelegated())
	require.Greater(t, done.GetTreeCostUsd(), done.GetCostUsd())
	tree, err := c.api.ShowTaskTree(t.Context(), &fleetv1.ShowTaskTreeRequest{TaskId: id})
	require.NoError(t, err)
	require.Len(t, tree.GetTasks(), 3)

	boss := requests[0]
	require.Contains(t, boss.System.text(), "You can delegate")
	tools := map[string]bool{} // Claude Code lists the tools by name, and reads their schemas when it needs them
	for _, m := range regexp.MustCompile(`mcp__fleet__(\w+)\n`).FindAllStringSubmatch(boss.conversationText(), -1) {
		tools[m[1]] = true
	}
	require.Equal(t, map[string]bool{"queue_task": true, "run_task": true, "show_task": true, "show_task_tree": true, "wait_tasks": true}, tools)
	for _, r := range c.requestsWith("model: hang parts") {
		if !strings.Contains(r.conversationText(), "Split it.") {
			require.Contains(t, r.System.text(), "Another agent has delegated this task to you")
		}
	}
}
