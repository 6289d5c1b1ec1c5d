package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAdoption deletes Fleet's database. The next server must rebuild all agents from Coder.
func TestAdoption(t *testing.T) {
	b := newTestbed(t, "bob")
	first := b.serve(t, setup{}).callerOn("grpc")
	created := map[string]object{}
	for _, a := range []object{
		{"name": "Sony", "project": "Setup", "role": "manager", "spec": "Coordinate the others,\nand review $HOME."},
		{"name": "Papi", "project": "DataOne", "spec": "Write code."},
	} {
		r := first.call(t, "create_agent", a)
		require.Equal(t, "idle", r.text("agent.status"), "%v", r)
		created[a.text("name")] = first.agent(t, a.text("name"))
	}
	first.call(t, "stop_agent", object{"agent_name": "Papi"})
	first.stop(t)
	files, err := filepath.Glob(filepath.Join(first.data, "fleet.db*"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		require.NoError(t, os.Remove(f))
	}

	second := b.serve(t, setup{prefix: first.prefix, data: first.data}).callerOn("rest")
	var r object
	b.eventually(t, "both agents are known", func() bool {
		r = second.call(t, "list_agents", object{})
		return len(r.list("agents")) == 2
	})
	for name, was := range created {
		now := second.agent(t, name)
		for _, key := range []string{"name", "role", "project", "spec", "workspace_id", "owner"} {
			require.Equal(t, was[key], now[key], "%s of %s", key, name)
		}
	}
	require.Equal(t, "stopped", second.agent(t, "Papi")["state"])
	b.eventually(t, "Sony is idle", func() bool { return second.agent(t, "Sony")["status"] == "idle" })
	require.Equal(t, "completed", second.wait(t, second.startTask(t, "Sony", "echo adopted"))["status"])
	require.Equal(t, "idle", second.call(t, "start_agent", object{"agent_name": "Papi"}).text("agent.status"))
	second.remove(t, "Sony")
	second.remove(t, "Papi")
}

// TestKilledMidTask kills the server while an agent works. The agent continues, the next server takes over the task,
// and no prompt is sent twice.
func TestKilledMidTask(t *testing.T) {
	b := newTestbed(t, "bob")
	first := b.serve(t, setup{}).callerOn("grpc")
	require.Equal(t, "idle", first.call(t, "create_agent", object{"name": "Papi", "project": "Setup", "spec": "x"}).text("agent.status"))
	ws := first.workspaceOf("Papi")

	const early, late = "sleep 8 through the first crash", "sleep 8 through the second crash"
	id := first.startTask(t, "Papi", early) // the server is killed at once, so it may not have sent the prompt yet
	first.kill(t)
	second := b.serve(t, setup{prefix: first.prefix, data: first.data}).callerOn("mcp")
	done := second.wait(t, id)
	require.Equal(t, "completed", done["status"], "%v", done)
	require.Contains(t, done["summary"], "Handled: "+early)
	require.Equal(t, 1, b.timesPrompted(t, ws, early))

	id = second.startTask(t, "Papi", late)
	b.eventually(t, "the agent works", func() bool { return b.timesPrompted(t, ws, late) == 1 })
	second.kill(t)
	third := b.serve(t, setup{prefix: first.prefix, data: first.data}).callerOn("rest")
	require.Equal(t, "busy", third.agent(t, "Papi")["status"])
	done = third.wait(t, id)
	require.Equal(t, "completed", done["status"], "%v", done)
	require.Contains(t, done["summary"], "Handled: "+late)
	require.Equal(t, 1, b.timesPrompted(t, ws, late))
	require.Equal(t, 1, b.timesPrompted(t, ws, early))
	third.remove(t, "Papi")
}
