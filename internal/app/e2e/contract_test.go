package e2e

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestContract checks the promises of the API about an agent and its tasks on each face, with one server and the real Coder.
func TestContract(t *testing.T) {
	s := newTestbed(t, "bob").serve(t, setup{})
	for _, face := range slices.Sorted(maps.Keys(faces)) {
		t.Run(face, func(t *testing.T) {
			t.Parallel()
			w := contractTest{caller: s.callerOn(face), name: "Papi-" + face}
			for _, step := range []struct {
				name string
				take func(*testing.T)
			}{
				{"catalog", w.catalog},
				{"create", w.create},
				{"task", w.task},
				{"stop", w.stop},
				{"failure", w.failure},
				{"restart", w.restart},
				{"power", w.power},
				{"metadata", w.metadata},
				{"history", w.history},
				{"delete", w.delete},
			} {
				if !t.Run(step.name, step.take) {
					return // the following steps depend on this step
				}
			}
		})
	}
}

// contractTest checks the promises of the API on one face. Its steps depend on each other.
type contractTest struct {
	caller
	name string // the name of the agent that it uses
}

func (c *contractTest) catalog(t *testing.T) {
	projects := map[string]object{}
	for _, p := range c.call(t, "list_agent_projects", object{}).list("projects") {
		projects[p.text("template_name")] = p
	}
	require.Equal(t, "Setup", projects["setup-devcontainer"].text("display_name"))
	require.Equal(t, "Infrastructure and tooling monorepo", projects["setup-devcontainer"].text("description"))
	require.NotEmpty(t, projects["setup-devcontainer"].text("template_id"))
	require.Contains(t, projects, "dataone-devcontainer")
	require.NotContains(t, projects, "plain", "a template that cannot host agents must not be a project")

	for _, name := range []string{"Setup", "setup", "setup-devcontainer", "SETUP-Devcontainer"} {
		var roles, defaults []string
		for _, r := range c.call(t, "list_agent_roles", object{"project": name}).list("roles") {
			roles = append(roles, r.text("name"))
			if r["default"] == true {
				defaults = append(defaults, r.text("name"))
			}
		}
		require.Equal(t, []string{"coder", "operator", "manager"}, roles, name)
		require.Equal(t, []string{"coder"}, defaults, name)
	}
	c.requireRefusal(t, "list_agent_roles", object{"project": "Nowhere"}, "PROJECT_NOT_FOUND", 404, "Nowhere", "Setup", "DataOne")
	c.requireRefusal(t, "show_agent", object{"agent_name": "Nobody"}, "AGENT_NOT_FOUND", 404, "Nobody")
	c.requireRefusal(t, "create_agent", object{"name": c.name, "project": "Nowhere", "spec": "x"}, "PROJECT_NOT_FOUND", 400, "Setup", "DataOne")
	c.requireRefusal(t, "create_agent", object{"name": c.name, "project": "Setup", "role": "captain", "spec": "x"}, "ROLE_NOT_FOUND", 400, "captain", "coder", "operator", "manager")
	c.requireRefusal(t, "create_agent", object{"name": c.name, "project": "Setup", "spec": "  "}, "SPEC_REQUIRED", 400)
	c.requireRefusal(t, "create_agent", object{"name": "a--b", "project": "Setup", "spec": "x"}, "INVALID_NAME", 400)
	_, created := c.workspace(t, c.workspaceOf(c.name))
	require.False(t, created, "a refused call must not create anything")
}

func (c *contractTest) create(t *testing.T) {
	const spec = "Keep the build green.\nSay \"done\" when it is; costs are $5, 100 % of it."
	start := time.Now()
	r := c.call(t, "create_agent", object{"name": c.name, "project": "SETUP", "role": "Operator", "spec": spec})
	t.Logf("create → idle in %s", time.Since(start).Round(10*time.Millisecond))
	a := object(r["agent"].(map[string]any))
	require.Equal(t, "idle", a["status"], "%v", r)
	require.Equal(t, "running", a["state"])
	require.Equal(t, "operator", a["role"])
	require.Equal(t, spec, a["spec"])
	require.Nil(t, a["current_task"])
	require.Equal(t, spec, a.text("metadata.fleet_mcp_agent_spec"))
	require.NotContains(t, a["metadata"], "fleet_mcp_pull_request_url", "unset fields must be absent")
	_, err := time.Parse("2006-01-02T15:04:05Z", a.text("created_at"))
	require.NoError(t, err)

	ws, created := c.workspace(t, c.workspaceOf(c.name))
	require.True(t, created)
	require.Equal(t, ws.ID, a["workspace_id"])
	require.Equal(t, map[string]string{"role": "operator", "spec": spec, "fleet_owner": a.text("owner")}, c.parameters(t, ws))

	c.requireRefusal(t, "create_agent", object{"name": strings.ToUpper(c.name), "project": "Setup", "spec": "x"}, "AGENT_EXISTS", 400, c.name)
	require.Equal(t, c.name, c.agent(t, strings.ToLower(c.name))["name"], "a name must be found in any case, and must be shown as it was created")
	require.Equal(t, "idle", c.listedAgent(t, c.name)["status"])
}

func (c *contractTest) task(t *testing.T) {
	_, cursor := c.events(t, c.name, "now")
	start := time.Now()
	r := c.call(t, "start_agent_task", object{"agent_name": c.name, "task_description": "sleep 5 for the first task\nand its second line"})
	t.Logf("start_agent_task answers in %s", time.Since(start).Round(time.Millisecond))
	id := r.text("task.id")
	require.Equal(t, "running", r.text("task.status"))
	require.Equal(t, "busy", r["agent_status"])
	events, cursor := c.awaitEvents(t, c.name, cursor)
	require.True(t, slices.ContainsFunc(events, func(e object) bool { return e["type"] == "task_started" && e["task_id"] == id }),
		"the events must come within a second: %v", events)

	a := c.agent(t, c.name)
	require.Equal(t, "busy", a["status"])
	require.Equal(t, id, a["current_task_id"])
	require.Contains(t, a["current_task"], "for the first task")
	c.requireRefusal(t, "start_agent_task", object{"agent_name": c.name, "task_description": "echo too many"}, "AGENT_BUSY", 409, c.name)

	var output []object
	within(t, 10*time.Second, "the agent's output is in events while it works", func() bool {
		events, cursor = c.awaitEvents(t, c.name, cursor)
		for _, e := range events {
			if e["type"] == "task_output" || e["type"] == "task_step" {
				output = append(output, e)
			}
		}
		return len(output) > 0
	})
	t.Logf("first output of the agent %s after the start", time.Since(start).Round(10*time.Millisecond))
	require.Equal(t, "running", c.call(t, "show_task", object{"task_id": id}).text("task.status"))

	c.call(t, "send_task_message", object{"agent_name": c.name, "message": "echo the follow-up was heard"})
	done := c.wait(t, id)
	t.Logf("ended %s after the start", time.Since(start).Round(10*time.Millisecond))
	require.Equal(t, "completed", done["status"], "%v", done)
	require.Contains(t, done["summary"], "the follow-up was heard", "the summary must be the agent's last text")
	require.NotContains(t, done["summary"], "  ", "the summary must not contain the padding of the screen")
	require.Equal(t, "idle", c.agent(t, c.name)["status"])
	require.Equal(t, 1, c.timesPrompted(t, c.workspaceOf(c.name), "sleep 5 for the first task\nand its second line"), "the prompt must be sent once")
	require.Equal(t, 1, c.timesPrompted(t, c.workspaceOf(c.name), "echo the follow-up was heard"), "the message must be sent once")
	detail := c.call(t, "show_task", object{"task_id": id, "include_payload": true})
	require.Contains(t, detail.text("task.payload"), "Handled: sleep 5 for the first task", "the payload must be the complete output")
}

func (c *contractTest) stop(t *testing.T) {
	c.requireRefusal(t, "stop_agent_task", object{"agent_name": c.name}, "NO_RUNNING_TASK", 404, c.name)
	c.stopTask(t)
	next := c.wait(t, c.startTask(t, c.name, "echo ready again"))
	require.Equal(t, "completed", next["status"], "%v", next)
	require.Equal(t, "ready again", strings.TrimSpace(firstLine(next.text("summary"))))
}

// stopTask starts a task, and stops it while it is active. The answer must show the stopped task and the idle agent. stopTask logs
// how long that took; about two seconds of it are the time that AgentAPI needs to notice that its agent is idle.
func (c *contractTest) stopTask(t *testing.T) {
	const description = "sleep 120 to be stopped"
	id := c.startTask(t, c.name, description)
	within(t, 10*time.Second, "the agent works", func() bool { return c.timesPrompted(t, c.workspaceOf(c.name), description) == 1 })
	start := time.Now()
	r := c.call(t, "stop_agent_task", object{"agent_name": c.name})
	elapsed := time.Since(start)
	t.Logf("stopped in %s", elapsed.Round(10*time.Millisecond))
	require.Equal(t, id, r.text("task.id"))
	require.Equal(t, "stopped", r.text("task.status"))
	require.Equal(t, "idle", r["agent_status"])
	require.NotEmpty(t, r.text("task.completed_at"))
	require.Equal(t, "idle", c.agent(t, c.name)["status"])
}

// firstLine returns the text before the first line break.
func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func (c *contractTest) failure(t *testing.T) {
	done := c.wait(t, c.startTask(t, c.name, "fail on purpose"))
	require.Equal(t, "failed", done["status"], "%v", done)
	require.Contains(t, done["reason"], "failed: fail on purpose", "the reason must be the agent's report")
	done = c.wait(t, c.startTask(t, c.name, "done on purpose"))
	require.Equal(t, "completed", done["status"], "the agent's report of success must count, not the empty report of the watcher after it: %v", done)
	require.Contains(t, done["summary"], "Done: done on purpose")
}

func (c *contractTest) restart(t *testing.T) {
	c.requireRefusal(t, "restart_agent", object{"agent_name": c.name, "role": "captain"}, "ROLE_NOT_FOUND", 400, "captain", "manager")
	r := c.call(t, "restart_agent", object{"agent_name": c.name, "role": "MANAGER"})
	require.Equal(t, "manager", r.text("agent.role"), "%v", r)
	require.Equal(t, "idle", r.text("agent.status"), "%v", r)
	ws, _ := c.workspace(t, c.workspaceOf(c.name))
	require.Equal(t, "manager", c.parameters(t, ws)["role"])
	done := c.wait(t, c.startTask(t, c.name, "plan the week"))
	require.Contains(t, done["summary"], "[manager] Handled: plan the week")
}

func (c *contractTest) power(t *testing.T) {
	r := c.call(t, "stop_agent", object{"agent_name": c.name})
	require.Equal(t, "offline", r.text("agent.status"), "%v", r)
	require.Equal(t, "stopped", r.text("agent.state"))
	ws, _ := c.workspace(t, c.workspaceOf(c.name))
	require.Equal(t, "stopped", ws.LatestBuild.Status)
	c.requireRefusal(t, "start_agent_task", object{"agent_name": c.name, "task_description": "echo x"}, "AGENT_OFFLINE", 400, c.name)
	r = c.call(t, "start_agent", object{"agent_name": c.name})
	require.Equal(t, "idle", r.text("agent.status"), "%v", r)
	require.Equal(t, "manager", r.text("agent.role"), "the agent must keep its role")

	lines, _ := c.call(t, "show_agent_log", object{"agent_name": c.name, "lines": 500})["lines"].([]any)
	require.NotEmpty(t, lines)
	for _, line := range lines {
		require.NotContains(t, line, c.token)
	}
}

func (c *contractTest) metadata(t *testing.T) {
	ws := c.workspaceOf(c.name)
	c.setMetadata(t, ws, "pull_request_url", "https://example.com/pull/7")
	c.setMetadata(t, ws, "pull_request_status", "open")
	c.setMetadata(t, ws, "check_status", "passing")
	elapsed := within(t, 30*time.Second, "metadata appear", func() bool {
		return c.agent(t, c.name).text("metadata.fleet_mcp_pull_request_check_status") == "passing"
	})
	t.Logf("metadata shown after %s", elapsed.Round(10*time.Millisecond))
	a := c.agent(t, c.name)
	require.Equal(t, "https://example.com/pull/7", a.text("metadata.fleet_mcp_pull_request_url"))
	require.Equal(t, "open", a.text("metadata.fleet_mcp_pull_request_status"))
	require.NotEmpty(t, a.text("metadata.fleet_mcp_agent_spec"))
}

func (c *contractTest) history(t *testing.T) {
	r := c.call(t, "show_agent_task_history", object{"agent_name": c.name, "page_size": 2, "page": 2})
	total, _ := r["total_count"].(float64)
	require.EqualValues(t, math.Ceil(total/2), r["total_pages"])
	require.Len(t, r.list("tasks"), 2)
	all := c.call(t, "show_agent_task_history", object{"agent_name": c.name, "page_size": 1000})
	require.EqualValues(t, 100, all["page_size"])
	tasks := all.list("tasks")
	require.Len(t, tasks, int(total))
	require.Equal(t, "completed", tasks[len(tasks)-1]["status"], "the first task must be the last in the list")
	require.Equal(t, "stopped", tasks[len(tasks)-2]["status"])
	require.Equal(t, tasks[2:4], r.list("tasks"))
	require.Empty(t, c.call(t, "show_agent_task_history", object{"agent_name": c.name, "page": 9}).list("tasks"))
	c.requireRefusal(t, "show_agent_task_history", object{"agent_name": c.name, "page": 0}, "INVALID_PAGE", 400)
}

func (c *contractTest) delete(t *testing.T) {
	ws, _ := c.workspace(t, c.workspaceOf(c.name))
	id := c.startTask(t, c.name, "sleep 120")
	start := time.Now()
	r := c.call(t, "delete_agent", object{"agent_name": c.name})
	t.Logf("deleted while busy in %s", time.Since(start).Round(10*time.Millisecond))
	require.Equal(t, c.name, r.text("deleted_agent.name"))
	require.Equal(t, ws.ID, r.text("deleted_agent.workspace_id"))
	require.Nil(t, c.listedAgent(t, c.name))
	c.requireRefusal(t, "show_agent", object{"agent_name": c.name}, "AGENT_NOT_FOUND", 404, c.name)
	c.requireRefusal(t, "delete_agent", object{"agent_name": c.name}, "AGENT_NOT_FOUND", 404, c.name)
	require.Equal(t, "stopped", c.call(t, "show_task", object{"task_id": id}).text("task.status"))
	_, found := c.workspace(t, c.workspaceOf(c.name))
	require.False(t, found, "the workspace must be deleted")
}
