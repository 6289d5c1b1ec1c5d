package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPool queues tasks for a pool of the real Claude Code in workspaces. A budget holds half of them until it is raised.
func TestPool(t *testing.T) {
	const tasks, half, maxAgents = 12, 6, 4
	b := newTestbed(t, "bob")
	b.needClaude(t)
	m := b.newSharedModel(t)
	s := b.serve(t, setup{})
	c := s.callerOn("grpc")

	// A task reserves a quarter of the budget, and costs less.
	c.call(t, "set_budget", object{"name": "all", "limit_usd": 0.08})
	c.call(t, "create_pool", object{"name": "crew", "project": "Claude", "max_agents": maxAgents})
	var ids []string
	for i := range tasks {
		r := c.call(t, "queue_task", object{"pool": "crew", "task_description": fmt.Sprintf("Fix number %d.\nmodel: say Fixed %d", i, i)})
		ids = append(ids, r.text("task.id"))
	}
	within(t, defaultTimeout, "the pool has its maximum of agents", func() bool {
		agents := c.call(t, "list_agents", object{}).list("agents")
		for _, a := range agents {
			require.NotEqual(t, "idle", a["status"], "no agent may be idle before the pool has created all agents")
		}
		return len(agents) == maxAgents
	})
	spent := func() any { return c.call(t, "show_budget", object{"name": "all"}).valueAt("budget.spent_usd") }
	within(t, defaultTimeout, "the budget holds the other half", func() bool {
		return len(c.call(t, "list_tasks", object{"status": "completed"}).list("tasks")) == half
	})
	require.InDelta(t, half*answerCost, spent(), 1e-9)
	waiting := c.call(t, "list_queue", object{}).list("tasks")
	require.Len(t, waiting, tasks-half)
	for _, q := range waiting {
		queue, _ := q["queue"].(map[string]any)
		waits := object(queue).list("waits")
		require.Len(t, waits, 1)
		require.Equal(t, "budget", waits[0]["reason"])
	}

	c.call(t, "set_budget", object{"name": "all", "limit_usd": 10.0})
	for _, id := range ids {
		done := c.wait(t, id)
		require.Equal(t, "completed", done["status"], "%v", done)
	}
	require.InDelta(t, tasks*answerCost, spent(), 1e-9)
	require.Len(t, m.Requests(), tasks)
	require.Len(t, c.call(t, "list_agents", object{}).list("agents"), maxAgents)

	c.call(t, "delete_pool", object{"name": "crew"})
	within(t, defaultTimeout, "the pool's workspaces are deleted", func() bool { return len(s.fleetWorkspaces(t)) == 0 })
}
