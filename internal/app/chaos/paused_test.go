package chaos

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/place/fake"
)

// TestPausedServer pauses the server that works on a task for longer than its lease. Another server takes the task
// over. When the first server continues, it must not change how the task has ended, and must show the same end as the
// other server.
func TestPausedServer(t *testing.T) {
	t.Parallel()
	db := startPostgres(t)
	dir := t.TempDir()
	socket := filepath.Join(dir, "shared.sock")
	world := serveShared(t, socket)
	var servers [2]*server
	for i, name := range []string{"one", "two"} {
		servers[i] = newServer(t, name, filepath.Join(dir, name))
		servers[i].store, servers[i].shared = db.URL("postgres"), socket
		require.NoError(t, servers[i].Start(0))
		_, err := servers[i].awaitServing(patience)
		require.NoError(t, err)
		if i > 0 {
			break
		}
		created := &fleetv1.CreateAgentResponse{}
		require.NoError(t, overGRPC(t.Context(), servers[0], "CreateAgent", &fleetv1.CreateAgentRequest{Name: "papi", Project: fake.DefaultProjects()[0].Name, Spec: "x"}, created))
		require.Equal(t, fleetv1.Agent_idle, created.GetAgent().GetStatus(), created)
		started := &fleetv1.StartAgentTaskResponse{}
		require.NoError(t, overGRPC(t.Context(), servers[0], "StartAgentTask", &fleetv1.StartAgentTaskRequest{AgentName: "papi", TaskDescription: "echo before\nwait gate\necho after\ndone well"}, started))
		<-world.Reached("gate")
	}

	servers[0].Signal(syscall.SIGSTOP)
	defer servers[0].Signal(syscall.SIGCONT)
	world.Release("gate")
	agent := &fleetv1.ShowAgentResponse{}
	end := time.Now().Add(patience)
	for agent.GetAgent().GetStatus() != fleetv1.Agent_idle { // polled: the server that would send the event is paused
		require.True(t, time.Now().Before(end), "the task does not end: %v", agent)
		require.NoError(t, overGRPC(t.Context(), servers[1], "ShowAgent", &fleetv1.ShowAgentRequest{AgentName: "papi"}, agent))
		time.Sleep(20 * time.Millisecond)
	}
	servers[0].Signal(syscall.SIGCONT)
	_, err := servers[0].awaitServing(patience)
	require.NoError(t, err)

	for _, s := range servers {
		f := &fleetUnder{servers: []*server{s}}
		log, err := f.logOf(t.Context())
		require.NoError(t, err)
		v := &verdict{}
		v.checkLog(log)
		require.Empty(t, v.problems)
		var text []string
		ends := 0
		for _, e := range log {
			switch e.GetType() {
			case fleetv1.Event_task_output:
				text = append(text, e.GetText())
			case fleetv1.Event_task_ended:
				ends++
				require.Equal(t, "completed", e.GetStatus())
				require.Equal(t, 1, world.Deliveries(e.GetTaskId()))
			}
		}
		require.Equal(t, 1, ends)
		require.Equal(t, "beforeafter", strings.Join(text, ""))
	}
}
