package npm

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// installClaude installs Claude Code and returns its path. It skips the test unless TEST_CLAUDE is set.
func installClaude(t *testing.T) string {
	t.Helper()
	skipUnlessSet(t, "TEST_CLAUDE", "test-claude", "the Claude Code CLI, 360 MB")
	return filepath.Join(install(t, "claude"), "node_modules", ".bin", "claude")
}

// claudeFleet is a fleet whose agents are Claude Code. Tests of other programs use it without its model.
type claudeFleet struct {
	*server
	*model
	home home
}

// role is a role in the form of fleet.yaml.
type role map[string]any

// newClaudeFleet starts a fleet with the project code, which has the roles.
func newClaudeFleet(t *testing.T, roles ...role) *claudeFleet {
	t.Helper()
	return newClaudeFleetOn(t, newModel(t), "", roles...)
}

// newClaudeFleetOn is newClaudeFleet with the given model, and a repository for the project, or "".
func newClaudeFleetOn(t *testing.T, m *model, repository string, roles ...role) *claudeFleet {
	t.Helper()
	path := installClaude(t)
	c := &claudeFleet{model: m, home: newHome(t)}
	c.home.writeYAML(t, "fleet.yaml", map[string]any{"local": map[string]any{"projects": []any{map[string]any{
		"name": "code", "driver": "claude", "command": []string{path}, "env": c.env(), "roles": roles, "repository": repository,
	}}}})
	c.serve(t)
	return c
}

// serve starts the server, or restarts it after it was killed.
func (c *claudeFleet) serve(t *testing.T) {
	t.Helper()
	c.server = serve(t, c.home, "--config", c.home.path("fleet.yaml"))
}

func (c *claudeFleet) create(t *testing.T, name, role string) {
	t.Helper()
	r, err := c.api.CreateAgent(t.Context(), &fleetv1.CreateAgentRequest{Name: name, Project: "code", Role: role, Spec: "Keep the tests honest"})
	require.NoError(t, err)
	require.Equal(t, fleetv1.Agent_idle, r.GetAgent().GetStatus())
}

// start starts a task with the lines as its description, and returns its id.
func (c *claudeFleet) start(t *testing.T, agent string, prompt ...string) (id string) {
	t.Helper()
	r, err := c.api.StartAgentTask(t.Context(), &fleetv1.StartAgentTaskRequest{AgentName: agent, TaskDescription: strings.Join(prompt, "\n")})
	require.NoError(t, err)
	return r.GetTask().GetId()
}

// wait waits for the end of the task, and returns it.
func (c *claudeFleet) wait(t *testing.T, id string) *fleetv1.TaskDetail {
	t.Helper()
	c.waitForEvent(t, id, func(e *fleetv1.Event) bool { return e.GetType() == fleetv1.Event_task_ended })
	d, err := c.api.ShowTask(t.Context(), &fleetv1.ShowTaskRequest{TaskId: id, IncludePayload: true})
	require.NoError(t, err)
	return d.GetTask()
}

// runTask starts a task, waits for its end, and returns it.
func (c *claudeFleet) runTask(t *testing.T, agent string, prompt ...string) *fleetv1.TaskDetail {
	t.Helper()
	return c.wait(t, c.start(t, agent, prompt...))
}

// waitForEvent reads events of the task until enough returns true for one of them. It returns all events that it has read.
func (c *claudeFleet) waitForEvent(t *testing.T, id string, enough func(*fleetv1.Event) bool) (events []*fleetv1.Event) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), defaultTimeout)
	defer cancel()
	w, err := c.api.WatchFleet(ctx, &fleetv1.WatchFleetRequest{TaskId: id, Follow: true, Details: true})
	require.NoError(t, err)
	for {
		r, err := w.Recv()
		if errors.Is(err, io.EOF) {
			require.Fail(t, "the task ended before the expected event", "%v", events)
		}
		require.NoError(t, err)
		for _, e := range r.GetEvents() {
			if events = append(events, e); enough(e) {
				return events
			}
		}
	}
}

// eventTexts returns the texts of the events with the type.
func eventTexts(events []*fleetv1.Event, kind fleetv1.Event_Type) (all []string) {
	for _, e := range events {
		if e.GetType() == kind {
			all = append(all, e.GetText())
		}
	}
	return all
}

// waitForFile waits until a tool has created the file.
func waitForFile(t *testing.T, path string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := os.Stat(path)
		return err == nil
	}, defaultTimeout, 5*time.Millisecond, "the tool does not run")
}

// waitAtGate waits until the model hangs at the gate.
func (c *claudeFleet) waitAtGate(t *testing.T, gate string) *gate {
	t.Helper()
	g := c.gate(gate)
	waitClosed(t, g.arrived, "no request reached the gate "+gate)
	return g
}

// waitClosed waits until the channel is closed. It fails the test with the message if that takes too long.
func waitClosed(t *testing.T, c <-chan struct{}, message string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(defaultTimeout):
		require.Fail(t, message)
	}
}

// runDir returns the directory of the task's run.
func (c *claudeFleet) runDir(t *testing.T, id string) string {
	t.Helper()
	found, err := filepath.Glob(c.home.path("data", "agents", "*", "runs", id))
	require.NoError(t, err)
	require.Len(t, found, 1)
	return found[0]
}

// workDir returns the agent's working directory.
func (c *claudeFleet) workDir(t *testing.T, agent string) string {
	t.Helper()
	r, err := c.api.ShowAgent(t.Context(), &fleetv1.ShowAgentRequest{AgentName: agent})
	require.NoError(t, err)
	require.DirExists(t, r.GetAgent().GetLocation())
	return r.GetAgent().GetLocation()
}

// processes returns the processes of the agent's tasks.
func (c *claudeFleet) processes(agent string) []process {
	return c.home.processes("FLEET_AGENT=" + agent)
}

// claudePID returns the process id of the agent's Claude Code.
func (c *claudeFleet) claudePID(t *testing.T, agent string) int {
	t.Helper()
	for _, p := range c.processes(agent) {
		if argv0, _, _ := strings.Cut(p.command, " "); filepath.Base(argv0) == "claude" {
			return p.pid
		}
	}
	require.Fail(t, "Claude Code must run", "%v", c.processes(agent))
	return 0
}
