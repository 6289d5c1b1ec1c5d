package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestIsolation uses the token of Coder's owner, who can see all workspaces. Fleet must ignore the workspaces of other
// people, workspaces without its prefix, and workspaces whose template cannot host agents.
func TestIsolation(t *testing.T) {
	admin, alice := newTestbed(t, "admin"), newTestbed(t, "alice")
	prefix := admin.newPrefix(t)
	t.Cleanup(func() { alice.deleteWorkspaces(t, prefix) })
	theirs := alice.createWorkspace(t, "setup-devcontainer", prefix+"Theirs")
	plain := admin.createWorkspace(t, "plain", prefix+"Plain")
	other := admin.createWorkspace(t, "setup-devcontainer", "x"+prefix+"Other") // without Fleet's prefix
	t.Cleanup(func() { admin.deleteWorkspaces(t, "x"+prefix) })

	s := admin.serve(t, setup{prefix: prefix})
	require.Equal(t, "idle", s.callerOn("grpc").call(t, "create_agent", object{"name": "Mine", "project": "Setup", "spec": "x"}).text("agent.status"))
	for face := range faces {
		c := s.callerOn(face)
		for _, p := range c.call(t, "list_agent_projects", object{}).list("projects") {
			require.NotEqual(t, "plain", p["template_name"])
		}
		r := c.call(t, "list_agents", object{})
		require.Len(t, r.list("agents"), 1, "%v", r)
		require.Equal(t, "Mine", r.list("agents")[0]["name"])
		for _, name := range []string{"Theirs", "Plain", "Other"} {
			for _, tool := range []string{"show_agent", "delete_agent", "stop_agent", "start_agent", "restart_agent", "stop_agent_task", "show_agent_log"} {
				c.requireRefusal(t, tool, object{"agent_name": name}, "AGENT_NOT_FOUND", 404, name)
			}
			c.requireRefusal(t, "start_agent_task", object{"agent_name": name, "task_description": "echo x"}, "AGENT_NOT_FOUND", 404, name)
		}
		c.requireRefusal(t, "create_agent", object{"name": "New", "project": "plain", "spec": "x"}, "PROJECT_NOT_FOUND", 400)
	}
	// Alice's workspace with the name of the agent Theirs does not belong to Fleet, and does not block the name.
	c := s.callerOn("mcp")
	r := c.call(t, "create_agent", object{"name": "Theirs", "project": "Setup", "spec": "x"})
	require.NotEqual(t, theirs.ID, r.text("agent.workspace_id"))
	require.Equal(t, "idle", r.text("agent.status"), "%v", r)
	c.remove(t, "Theirs")
	// Fleet must not use or delete a person's workspace that has the name of an agent's workspace.
	for face := range faces {
		c := s.callerOn(face)
		c.requireRefusal(t, "create_agent", object{"name": "Plain", "project": "Setup", "spec": "x"}, "AGENT_EXISTS", 400, plain.Name, "choose another name")
		c.requireRefusal(t, "show_agent", object{"agent_name": "Plain"}, "AGENT_NOT_FOUND", 404)
	}
	c.remove(t, "Mine")

	for ws, owner := range map[workspace]*testbed{theirs: alice, plain: admin, other: admin} {
		now, found := owner.workspace(t, ws.Name)
		require.True(t, found && now.LatestBuild.Number == 1, "%s must not change", ws.Name)
	}
}

// createWorkspace creates a workspace in Coder without Fleet, as a person does.
func (b *testbed) createWorkspace(t testing.TB, template, name string) (ws workspace) {
	t.Helper()
	var templates []struct{ ID, Name string }
	require.Equal(t, http.StatusOK, b.request(t, http.MethodGet, "/api/v2/templates", nil, &templates))
	for _, tpl := range templates {
		if tpl.Name == template {
			require.Equal(t, http.StatusCreated, b.request(t, http.MethodPost, "/api/v2/users/me/workspaces", object{"name": name, "template_id": tpl.ID}, &ws))
			return ws
		}
	}
	require.FailNow(t, "the test bed must have the template", template)
	return ws
}
