package chaos

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/place/fake"
	"fleet/internal/waittest"
)

// TestPausedServer pauses the server that works on a task for longer than its lease. Another server takes the task
// over. When the first server continues, it must not change how the task has ended, and must show the same end as the
// other server.
func TestPausedServer(t *testing.T) {
	t.Parallel()
	db := startPostgres(t)
	dir := t.TempDir()
	socket := filepath.Join(dir, "shared.sock")
	place := serveShared(t, socket)
	startServer := func(name string) *server {
		s := newServer(t, name, filepath.Join(dir, name))
		s.store, s.shared = db.URL("postgres"), socket
		s.startServing(t)
		return s
	}
	first := startServer("one")
	created := mustCall(t, first, fleetv1.FleetServiceClient.CreateAgent, &fleetv1.CreateAgentRequest{Name: "papi", Project: fake.DefaultProjects()[0].Name, Spec: "x"})
	require.Equal(t, fleetv1.Agent_idle, created.GetAgent().GetStatus(), created)
	mustCall(t, first, fleetv1.FleetServiceClient.StartAgentTask, &fleetv1.StartAgentTaskRequest{AgentName: "papi", TaskDescription: "echo before\nwait gate\necho after\ndone well"})
	<-place.Reached("gate")
	second := startServer("two")

	first.Signal(syscall.SIGSTOP)
	defer first.Signal(syscall.SIGCONT)
	place.Release("gate")
	waittest.Until(t, "the server that would send the event is paused", func() bool {
		return mustCall(t, second, fleetv1.FleetServiceClient.ShowAgent, &fleetv1.ShowAgentRequest{AgentName: "papi"}).GetAgent().GetStatus() == fleetv1.Agent_idle
	})
	first.Signal(syscall.SIGCONT)
	first.requireServing(t)

	for _, s := range []*server{first, second} {
		f := &fleetUnderLoad{servers: []*server{s}}
		log, err := f.readLog(t.Context())
		require.NoError(t, err)
		result := &checkResult{}
		result.checkLog(log)
		require.Empty(t, result.problems)
		var text []string
		ends := 0
		for _, e := range log {
			switch e.GetType() {
			case fleetv1.Event_task_output:
				text = append(text, e.GetText())
			case fleetv1.Event_task_ended:
				ends++
				require.Equal(t, "completed", e.GetStatus())
				require.Equal(t, 1, place.RunCount(e.GetTaskId()))
			}
		}
		require.Equal(t, 1, ends)
		require.Equal(t, "beforeafter", strings.Join(text, ""))
	}
}
