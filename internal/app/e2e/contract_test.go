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

// TestContract checks all promises of the API on each face, with one server.
func TestContract(t *testing.T) {
	s := newBed(t, "bob").serve(t, setup{})
	for _, face := range slices.Sorted(maps.Keys(faces)) {
		t.Run(face, func(t *testing.T) {
			t.Parallel()
			w := contractTest{caller: s.through(face), name: "Papi-" + face}
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

func (w *contractTest) catalog(t *testing.T) {
	projects := map[string]object{}
	for _, p := range w.call(t, "list_agent_projects", object{}).list("projects") {
		projects[p.text("template_name")] = p
	}
	require.Equal(t, "Setup", projects["setup-devcontainer"].text("display_name"))
	require.Equal(t, "Infrastructure and tooling monorepo", projects["setup-devcontainer"].text("description"))
	require.NotEmpty(t, projects["setup-devcontainer"].text("template_id"))
	require.Contains(t, projects, "dataone-devcontainer")
	require.NotContains(t, projects, "plain", "a template that cannot host agents must not be a project")

	for _, name := range []string{"Setup", "setup", "setup-devcontainer", "SETUP-Devcontainer"} {
		var roles, defaults []string
		for _, r := range w.call(t, "list_agent_roles", object{"project": name}).list("roles") {
			roles = append(roles, r.text("name"))
			if r["default"] == true {
				defaults = append(defaults, r.text("name"))
			}
		}
		require.Equal(t, []string{"coder", "operator", "manager"}, roles, name)
		require.Equal(t, []string{"coder"}, defaults, name)
	}
	w.fail(t, "list_agent_roles", object{"project": "Nowhere"}, "PROJECT_NOT_FOUND", 404, "Nowhere", "Setup", "DataOne")
	w.fail(t, "show_agent", object{"agent_name": "Nobody"}, "AGENT_NOT_FOUND", 404, "Nobody")
	w.fail(t, "create_agent", object{"name": w.name, "project": "Nowhere", "spec": "x"}, "PROJECT_NOT_FOUND", 400, "Setup", "DataOne")
	w.fail(t, "create_agent", object{"name": w.name, "project": "Setup", "role": "captain", "spec": "x"}, "ROLE_NOT_FOUND", 400, "captain", "coder", "operator", "manager")
	w.fail(t, "create_agent", object{"name": w.name, "project": "Setup", "spec": "  "}, "SPEC_REQUIRED", 400)
	w.fail(t, "create_agent", object{"name": "a--b", "project": "Setup", "spec": "x"}, "INVALID_NAME", 400)
	_, created := w.workspace(t, w.workspaceOf(w.name))
	require.False(t, created, "a refused call must not create anything")
}

func (w *contractTest) create(t *testing.T) {
	const spec = "Keep the build green.\nSay \"done\" when it is; costs are $5, 100 % of it."
	start := time.Now()
	r := w.call(t, "create_agent", object{"name": w.name, "project": "SETUP", "role": "Operator", "spec": spec})
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

	ws, created := w.workspace(t, w.workspaceOf(w.name))
	require.True(t, created)
	require.Equal(t, ws.ID, a["workspace_id"])
	require.Equal(t, map[string]string{"role": "operator", "spec": spec, "fleet_owner": a.text("owner")}, w.parameters(t, ws))

	w.fail(t, "create_agent", object{"name": strings.ToUpper(w.name), "project": "Setup", "spec": "x"}, "AGENT_EXISTS", 400, w.name)
	require.Equal(t, w.name, w.agent(t, strings.ToLower(w.name))["name"], "a name must be found in any case, and must be shown as it was created")
	require.Equal(t, "idle", w.listed(t, w.name)["status"])
}

// listed returns the agent from the answer of list_agents, or nil if the answer does not contain it.
func (c caller) listed(t testing.TB, name string) object {
	t.Helper()
	r := c.call(t, "list_agents", object{})
	for _, a := range r.list("agents") {
		if a["name"] == name {
			return a
		}
	}
	return nil
}

func (w *contractTest) task(t *testing.T) {
	_, cursor := w.events(t, w.name, "now", false)
	start := time.Now()
	r := w.call(t, "start_agent_task", object{"agent_name": w.name, "task_description": "sleep 5 for the first task\nand its second line"})
	t.Logf("start_agent_task answers in %s", time.Since(start).Round(time.Millisecond))
	id := r.text("task.id")
	require.Equal(t, "running", r.text("task.status"))
	require.Equal(t, "busy", r["agent_status"])
	events, cursor := w.events(t, w.name, cursor, true)
	require.True(t, slices.ContainsFunc(events, func(e object) bool { return e["type"] == "task_started" && e["task_id"] == id }),
		"events come within a second: %v", events)

	a := w.agent(t, w.name)
	require.Equal(t, "busy", a["status"])
	require.Equal(t, id, a["current_task_id"])
	require.Contains(t, a["current_task"], "for the first task")
	w.fail(t, "start_agent_task", object{"agent_name": w.name, "task_description": "echo too many"}, "AGENT_BUSY", 409, w.name)

	var output []object
	within(t, 10*time.Second, "the agent's output is in events while it works", func() bool {
		events, cursor = w.events(t, w.name, cursor, true)
		for _, e := range events {
			if e["type"] == "task_output" || e["type"] == "task_step" {
				output = append(output, e)
			}
		}
		return len(output) > 0
	})
	t.Logf("first output of the agent %s after the start", time.Since(start).Round(10*time.Millisecond))
	require.Equal(t, "running", w.call(t, "show_task", object{"task_id": id}).text("task.status"))

	w.call(t, "send_task_message", object{"agent_name": w.name, "message": "echo the follow-up was heard"})
	done := w.wait(t, id)
	t.Logf("ended %s after the start", time.Since(start).Round(10*time.Millisecond))
	require.Equal(t, "completed", done["status"], "%v", done)
	require.Contains(t, done["summary"], "the follow-up was heard", "the summary must be the agent's last text")
	require.NotContains(t, done["summary"], "  ", "the summary must not contain the padding of the screen")
	require.Equal(t, "idle", w.agent(t, w.name)["status"])
	require.Equal(t, 1, w.timesPrompted(t, w.workspaceOf(w.name), "sleep 5 for the first task\nand its second line"), "the prompt must be sent once")
	require.Equal(t, 1, w.timesPrompted(t, w.workspaceOf(w.name), "echo the follow-up was heard"), "the message must be sent once")
	detail := w.call(t, "show_task", object{"task_id": id, "include_payload": true})
	require.Contains(t, detail.text("task.payload"), "Handled: sleep 5 for the first task", "the payload must be the complete output")
}

func (w *contractTest) stop(t *testing.T) {
	w.fail(t, "stop_agent_task", object{"agent_name": w.name}, "NO_RUNNING_TASK", 404, w.name)
	w.stopTask(t, "sleep 120 to be stopped")
	next := w.wait(t, w.run(t, w.name, "echo ready again"))
	require.Equal(t, "completed", next["status"], "%v", next)
	require.Equal(t, "ready again", strings.TrimSpace(firstLine(next.text("summary"))))
}

// stopTask starts a task, stops it while it is active, and logs how long that took. AgentAPI needs two seconds to notice
// that its agent is idle.
func (w *contractTest) stopTask(t *testing.T, description string) {
	id := w.run(t, w.name, description)
	within(t, 10*time.Second, "the agent works", func() bool { return w.timesPrompted(t, w.workspaceOf(w.name), description) == 1 })
	start := time.Now()
	r := w.call(t, "stop_agent_task", object{"agent_name": w.name})
	elapsed := time.Since(start)
	t.Logf("stopped in %s", elapsed.Round(10*time.Millisecond))
	require.Equal(t, id, r.text("task.id"))
	require.Equal(t, "stopped", r.text("task.status"))
	require.Equal(t, "idle", r["agent_status"])
	require.NotEmpty(t, r.text("task.completed_at"))
	require.Equal(t, "idle", w.agent(t, w.name)["status"])
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func (w *contractTest) failure(t *testing.T) {
	done := w.wait(t, w.run(t, w.name, "fail on purpose"))
	require.Equal(t, "failed", done["status"], "%v", done)
	require.Contains(t, done["reason"], "failed: fail on purpose", "the reason must be the agent's report")
	done = w.wait(t, w.run(t, w.name, "done on purpose"))
	require.Equal(t, "completed", done["status"], "the agent's report of success must count, not the empty report of the watcher after it: %v", done)
	require.Contains(t, done["summary"], "Done: done on purpose")
}

func (w *contractTest) restart(t *testing.T) {
	w.fail(t, "restart_agent", object{"agent_name": w.name, "role": "captain"}, "ROLE_NOT_FOUND", 400, "captain", "manager")
	r := w.call(t, "restart_agent", object{"agent_name": w.name, "role": "MANAGER"})
	require.Equal(t, "manager", r.text("agent.role"), "%v", r)
	require.Equal(t, "idle", r.text("agent.status"), "%v", r)
	ws, _ := w.workspace(t, w.workspaceOf(w.name))
	require.Equal(t, "manager", w.parameters(t, ws)["role"])
	done := w.wait(t, w.run(t, w.name, "plan the week"))
	require.Contains(t, done["summary"], "[manager] Handled: plan the week")
}

func (w *contractTest) power(t *testing.T) {
	r := w.call(t, "stop_agent", object{"agent_name": w.name})
	require.Equal(t, "offline", r.text("agent.status"), "%v", r)
	require.Equal(t, "stopped", r.text("agent.state"))
	ws, _ := w.workspace(t, w.workspaceOf(w.name))
	require.Equal(t, "stopped", ws.LatestBuild.Status)
	w.fail(t, "start_agent_task", object{"agent_name": w.name, "task_description": "echo x"}, "AGENT_OFFLINE", 400, w.name)
	r = w.call(t, "start_agent", object{"agent_name": w.name})
	require.Equal(t, "idle", r.text("agent.status"), "%v", r)
	require.Equal(t, "manager", r.text("agent.role"), "the agent must keep its role")

	lines, _ := w.call(t, "show_agent_log", object{"agent_name": w.name, "lines": 500})["lines"].([]any)
	require.NotEmpty(t, lines)
	for _, line := range lines {
		require.NotContains(t, line, w.token)
	}
}

func (w *contractTest) metadata(t *testing.T) {
	ws := w.workspaceOf(w.name)
	w.setMetadata(t, ws, "pull_request_url", "https://example.com/pull/7")
	w.setMetadata(t, ws, "pull_request_status", "open")
	w.setMetadata(t, ws, "check_status", "passing")
	elapsed := within(t, 30*time.Second, "metadata appear", func() bool {
		return w.agent(t, w.name).text("metadata.fleet_mcp_pull_request_check_status") == "passing"
	})
	t.Logf("metadata show after %s", elapsed.Round(10*time.Millisecond))
	a := w.agent(t, w.name)
	require.Equal(t, "https://example.com/pull/7", a.text("metadata.fleet_mcp_pull_request_url"))
	require.Equal(t, "open", a.text("metadata.fleet_mcp_pull_request_status"))
	require.NotEmpty(t, a.text("metadata.fleet_mcp_agent_spec"))
}

func (w *contractTest) history(t *testing.T) {
	r := w.call(t, "show_agent_task_history", object{"agent_name": w.name, "page_size": 2, "page": 2})
	total, _ := r["total_count"].(float64)
	require.EqualValues(t, math.Ceil(total/2), r["total_pages"])
	require.Len(t, r.list("tasks"), 2)
	all := w.call(t, "show_agent_task_history", object{"agent_name": w.name, "page_size": 1000})
	require.EqualValues(t, 100, all["page_size"])
	tasks := all.list("tasks")
	require.Len(t, tasks, int(total))
	require.Equal(t, "completed", tasks[len(tasks)-1]["status"], "the first task must be the last in the list")
	require.Equal(t, "stopped", tasks[len(tasks)-2]["status"])
	require.Equal(t, tasks[2:4], r.list("tasks"))
	require.Empty(t, w.call(t, "show_agent_task_history", object{"agent_name": w.name, "page": 9}).list("tasks"))
	w.fail(t, "show_agent_task_history", object{"agent_name": w.name, "page": 0}, "INVALID_PAGE", 400)
}

func (w *contractTest) delete(t *testing.T) {
	ws, _ := w.workspace(t, w.workspaceOf(w.name))
	id := w.run(t, w.name, "sleep 120")
	start := time.Now()
	r := w.call(t, "delete_agent", object{"agent_name": w.name})
	t.Logf("deleted, busy, in %s", time.Since(start).Round(10*time.Millisecond))
	require.Equal(t, w.name, r.text("deleted_agent.name"))
	require.Equal(t, ws.ID, r.text("deleted_agent.workspace_id"))
	require.Nil(t, w.listed(t, w.name))
	w.fail(t, "show_agent", object{"agent_name": w.name}, "AGENT_NOT_FOUND", 404, w.name)
	w.fail(t, "delete_agent", object{"agent_name": w.name}, "AGENT_NOT_FOUND", 404, w.name)
	require.Equal(t, "stopped", w.call(t, "show_task", object{"task_id": id}).text("task.status"))
	_, found := w.workspace(t, w.workspaceOf(w.name))
	require.False(t, found, "the workspace must be deleted")
}
