package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stateDelayLimit is how long Fleet may take to show changes that it did not make.
const stateDelayLimit = 5 * time.Second

// TestExternalChanges changes agents directly in Coder, and checks that Fleet shows each change in time. Fleet must give a reason if an agent is
// unhealthy or its task has failed.
func TestExternalChanges(t *testing.T) {
	s := newTestbed(t, "bob").serve(t, setup{})
	for _, c := range []struct {
		name, face string
		state      string // of the agent after the change
		task       string // status of its task after the change; "" if the test does not check it
		change     func(t *testing.T, s *server, ws workspace)
		undo       func(t *testing.T, s *server, ws workspace) // nil if the test does not undo the change
	}{
		{
			name: "Slain", face: "grpc", state: "unhealthy",
			change: func(t *testing.T, s *server, ws workspace) { s.killProcess(t, ws.Name, "agent") },
		},
		{
			name: "Mute", face: "rest", state: "unhealthy",
			change: func(t *testing.T, s *server, ws workspace) { s.killProcess(t, ws.Name, "agentapi") },
		},
		{
			name: "Halted", face: "mcp", state: "stopped", task: "failed",
			change: func(t *testing.T, s *server, ws workspace) {
				require.Equal(t, http.StatusCreated, s.requestBuild(t, ws.ID, "stop"))
			},
			undo: func(t *testing.T, s *server, ws workspace) {
				require.Equal(t, http.StatusCreated, s.requestBuild(t, ws.ID, "start"))
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := s.callerOn(c.face)
			require.Equal(t, "idle", f.call(t, "create_agent", object{"name": c.name, "project": "DataOne", "spec": "x"}).text("agent.status"))
			ws, _ := s.workspace(t, s.workspaceOf(c.name))
			id := f.startTask(t, c.name, "sleep 120")
			require.Equal(t, "busy", f.agent(t, c.name)["status"])
			s.eventually(t, "the agent works", func() bool { return s.timesPrompted(t, ws.Name, "sleep 120") == 1 })

			c.change(t, s, ws)
			happened := time.Now()
			if c.state == "stopped" {
				s.eventually(t, "Coder has stopped it", func() bool {
					now, _ := s.workspace(t, ws.Name)
					happened = time.Now()
					return now.LatestBuild.Status == "stopped"
				})
			}
			elapsed := within(t, stateDelayLimit, "Fleet shows the change", func() bool { return f.agent(t, c.name)["state"] == c.state })
			a := f.agent(t, c.name)
			t.Logf("Fleet shows that %s is %s after %s: %s", c.name, c.state, elapsed.Round(10*time.Millisecond), a["state_reason"])
			require.Less(t, time.Since(happened), 2*stateDelayLimit)
			require.Equal(t, "offline", a["status"])
			require.Equal(t, "offline", f.listedAgent(t, c.name)["status"])
			if c.state != "stopped" {
				require.NotEmpty(t, a.text("state_reason"))
			}
			f.requireRefusal(t, "start_agent_task", object{"agent_name": c.name, "task_description": "echo x"}, "AGENT_OFFLINE", 400, c.name)
			if c.task != "" {
				ended := f.wait(t, id)
				require.Equal(t, c.task, ended["status"])
				require.NotEmpty(t, ended.text("reason"))
			}
			if c.undo != nil {
				c.undo(t, s, ws)
				within(t, defaultTimeout, "the agent is idle again", func() bool { return f.agent(t, c.name)["status"] == "idle" })
				require.Equal(t, "completed", f.wait(t, f.startTask(t, c.name, "echo back"))["status"])
			}
			f.remove(t, c.name)
		})
	}
	t.Run("Removed", func(t *testing.T) {
		f := s.callerOn("rest")
		require.Equal(t, "idle", f.call(t, "create_agent", object{"name": "Removed", "project": "DataOne", "spec": "x"}).text("agent.status"))
		ws, _ := s.workspace(t, s.workspaceOf("Removed"))
		id := f.startTask(t, "Removed", "sleep 120")
		s.eventually(t, "the agent works", func() bool { return s.timesPrompted(t, ws.Name, "sleep 120") == 1 })
		require.Equal(t, http.StatusCreated, s.requestBuild(t, ws.ID, "delete"))
		s.eventually(t, "Coder has deleted it", func() bool {
			_, found := s.workspace(t, ws.Name)
			return !found
		})
		elapsed := within(t, stateDelayLimit, "the list no longer contains the agent", func() bool { return f.listedAgent(t, "Removed") == nil })
		t.Logf("the list lacks the agent after %s", elapsed.Round(10*time.Millisecond))
		f.requireRefusal(t, "show_agent", object{"agent_name": "Removed"}, "AGENT_NOT_FOUND", 404)
		task := f.call(t, "show_task", object{"task_id": id})
		t.Logf("its task: %s", task.text("task.reason"))
		require.Equal(t, "failed", task.text("task.status"))
		require.Contains(t, task.text("task.reason"), "its workspace")
	})
}
