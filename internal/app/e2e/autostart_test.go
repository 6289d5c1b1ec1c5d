package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPromptFirst creates an agent whose template passes the prompt to the agent's program. The agent must be busy from the start,
// also after a restart of the server, and must receive the prompt once.
func TestPromptFirst(t *testing.T) {
	b := newTestbed(t, "bob")
	first := b.serve(t, setup{}).callerOn("rest")
	const spec = "sleep 10 to begin with"
	start := time.Now()
	r := first.call(t, "create_agent", object{"name": "Papi", "project": "prompt-first", "role": "operator", "spec": spec})
	t.Logf("create → busy in %s", time.Since(start).Round(10*time.Millisecond))
	require.Equal(t, "busy", r.text("agent.status"), "%v", r)
	require.Equal(t, spec, r.text("agent.current_task"))
	id, ws := r.text("agent.current_task_id"), first.workspaceOf("Papi")
	first.requireRefusal(t, "start_agent_task", object{"agent_name": "Papi", "task_description": "echo too early"}, "AGENT_BUSY", 409)
	created, found := b.workspace(t, ws)
	require.True(t, found)
	require.Equal(t, map[string]string{"AI Prompt": spec, "system_prompt": "You keep it running."}, b.parameters(t, created))
	first.kill(t)

	second := b.serve(t, setup{prefix: first.prefix, data: first.data}).callerOn("mcp")
	a := second.agent(t, "Papi")
	require.Equal(t, "busy", a["status"], "%v", a)
	require.Equal(t, id, a["current_task_id"])
	done := second.wait(t, id)
	require.Equal(t, "completed", done["status"], "%v", done)
	require.Contains(t, done["summary"], "Handled: "+spec)
	require.Equal(t, 1, b.timesPrompted(t, ws, spec))
	require.Equal(t, "ready again", second.wait(t, second.startTask(t, "Papi", "echo ready again")).text("summary"))

	r = second.call(t, "restart_agent", object{"agent_name": "Papi", "role": "Coder"})
	require.Equal(t, "Coder", r.text("agent.role"), "%v", r)
	second.remove(t, "Papi")
}
