package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDelegationClaude lets the real Claude Code delegate with its tools, from its workspace. Claude Code continues its
// conversation, and the cost limit of its task also covers the delegated tasks.
func TestDelegationClaude(t *testing.T) {
	b := newTestbed(t, "bob")
	b.needClaude(t)
	m := b.newSharedModel(t)
	d := newDelegationServer(t, b, "  delegate: {manager: {roles: [coder], may: [start]}}\n")
	d.call(t, "create_pool", object{"name": "heads", "project": "Claude", "role": "manager", "max_agents": 1})
	queue := func(usd float64, lines ...string) string {
		return d.call(t, "queue_task", object{"pool": "heads", "max_cost_usd": usd, "task_description": strings.Join(lines, "\n")}).text("task.id")
	}
	budget := func() (reserved, spent any) {
		shown := d.call(t, "show_budget", object{"name": "all"})
		return shown.valueAt("budget.reserved_usd"), shown.valueAt("budget.spent_usd")
	}
	d.call(t, "set_budget", object{"name": "all", "limit_usd": 1.5})

	part := `{"project":"Claude","role":"coder","new_agent":true,"max_cost_usd":0.3,"task_description":"Do a part.\nmodel: hang parts"}`
	id := queue(1, "Split it.", "model: tool mcp__fleet__queue_task "+part, "model: tool mcp__fleet__queue_task "+part, "model: say I wait", "model: say Both are done")
	d.waitUntilWaiting(t, id, 2)
	reserved, spent := budget()
	require.InDelta(t, 0.6, reserved, 1e-9, "only the cost limits of the parts must be reserved while the parent waits")
	require.InDelta(t, 3*answerCost, spent, 1e-9)
	other := d.wait(t, queue(0.2, "Something else.", "model: say Done"))
	require.Equal(t, "completed", other["status"], "%v", other)

	select {
	case <-m.Gate("parts").Arrived():
	case <-t.Context().Done():
	}
	m.Gate("parts").Open()
	done := d.wait(t, id)
	require.Equal(t, "completed", done["status"], "%v", done)
	require.Equal(t, "Both are done", done["summary"])
	requests := m.RequestsWith("Split it.")
	require.Len(t, requests, 4, "three answers before the results, and one after both")
	last := requests[3].Transcript()
	require.Equal(t, 2, strings.Count(last, "# Went on"), last)
	require.NotContains(t, last, "Something else.", "Claude Code must continue its own conversation")
	require.Contains(t, requests[0].System, "You can delegate")

	tree := d.tree(t, id)
	require.Len(t, tree, 3)
	require.InDelta(t, 4*answerCost, tree[0]["cost_usd"], 1e-9)
	require.InDelta(t, 6*answerCost, tree[0]["tree_cost_usd"], 1e-9)
	reserved, spent = budget()
	require.InDelta(t, 0, reserved, 1e-9)
	require.InDelta(t, 7*answerCost, spent, 1e-9)
	require.Zero(t, d.auditCount(t, "PERMISSION_DENIED"), "no call of the agent's program may be refused")
	require.Equal(t, tree[0]["agent_name"], other["agent_name"], "the parent must free its agent while it waits")
	d.call(t, "delete_pool", object{"name": "heads"})
}
