package mcp_test

import (
	"maps"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"fleet/internal/face/mcp"
)

// contractTools are the tools of the fleet contract, sorted.
var contractTools = []string{
	"create_agent", "delete_agent", "list_agent_projects", "list_agent_roles", "list_agents",
	"show_agent", "show_agent_task_history", "start_agent_task", "stop_agent_task",
}

// TestToolsByDefault limits the size of the default list of tools, because models pay for it: 27,400 characters are about
// 6,600 tokens.
func TestToolsByDefault(t *testing.T) {
	t.Parallel()
	tools, size := listTools(t, serve(t, newStub(), mcp.Config{}).URL+"/mcp"), 0
	for name, listed := range tools {
		size += utf8.RuneCountInString(name + listed.Description + string(listed.InputSchema))
	}
	t.Logf("%d tools, %d characters", len(tools), size)
	require.Less(t, size, 27_400)
	for _, name := range append([]string{"wait_tasks", "list_tasks", "show_task", "answer_question"}, contractTools...) {
		require.Contains(t, tools, name)
	}
	for _, name := range []string{"list_audit", "share_agent", "reload_config", "list_kept_work"} {
		require.NotContains(t, tools, name)
	}
	require.Contains(t, listTools(t, serve(t, newStub(), mcp.Config{}).URL+"/mcp/all"), "list_audit")
}

func TestChosenTools(t *testing.T) {
	t.Parallel()
	tools := listTools(t, serve(t, newStub(), mcp.Config{Tools: []string{"list_audit", "*_question*"}}).URL+"/mcp")
	want := append([]string{"answer_question", "list_audit", "list_questions"}, contractTools...)
	require.ElementsMatch(t, want, slices.Collect(maps.Keys(tools)))
}

func TestCheckTools(t *testing.T) {
	t.Parallel()
	require.NoError(t, mcp.CheckTools(nil))
	require.NoError(t, mcp.CheckTools([]string{"list_audit", "*"}))
	require.ErrorContains(t, mcp.CheckTools([]string{"list_audits"}), `no tool matches "list_audits"`)
	require.ErrorContains(t, mcp.CheckTools([]string{"[", "*"}), `no tool matches "["`)
}
