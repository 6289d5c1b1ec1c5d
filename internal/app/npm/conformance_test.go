package npm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// scenarios are the scenarios of the MCP conformance suite that any server can pass. The suite's other scenarios need tools, prompts and resources with special
// names, or features that Fleet does not offer: completion, and subscriptions in revisions with sessions.
var scenarios = []string{"server-initialize", "ping", "tools-list", "prompts-list", "resources-list", "server-sse-multiple-streams", "dns-rebinding-protection"}

// TestConformance runs the MCP conformance suite, MCP clients in JavaScript, and the MCP Inspector with real servers.
func TestConformance(t *testing.T) {
	skipUnlessSet(t, "TEST_CONFORMANCE", "conformance", "340 MB of npm packages")
	dir := install(t, "mcp")
	bin := func(name string) string { return filepath.Join(dir, "node_modules", ".bin", name) }
	h := newHome(t)
	// The test uses the Node from the packages, because the Node of this machine may be too old.
	env := h.env("PATH=" + filepath.Join(dir, "node_modules", ".bin") + string(os.PathListSeparator) + os.Getenv("PATH"))
	s := serve(t, h, "--places", "fake")

	passed := regexp.MustCompile(`Passed: [1-9]\d*/\d+, 0 failed, 0 warnings`)
	for _, scenario := range scenarios {
		t.Run(scenario, func(t *testing.T) {
			stdout, stderr, code := run(t, env, string(h), bin("conformance"), "server", "--url", s.mcp(), "--scenario", scenario)
			require.Zero(t, code, stdout+stderr)
			require.Regexp(t, passed, stdout+stderr)
			require.NotContains(t, stdout+stderr, "FAILURE")
		})
	}
	t.Run("a failing scenario is reported", func(t *testing.T) {
		_, _, code := run(t, env, string(h), bin("conformance"), "server", "--url", s.mcp(), "--scenario", "tools-call-simple-text")
		require.NotZero(t, code, "the suite's exit code must show failures")
	})
	t.Run("clients", func(t *testing.T) {
		stdout, stderr, code := run(t, env, string(h), bin("node"), filepath.Join(dir, "clients.mjs"), s.mcp(), s.grpc, program(t), string(h))
		require.Zero(t, code, stdout+stderr)
		require.Empty(t, stderr, "the servers that the clients started must print no errors")
		t.Log("\n" + stdout)
	})
	t.Run("tasks", func(t *testing.T) {
		repo, git := newRepository(t, map[string]string{"a.txt": "old\n"})
		h := newHome(t)
		h.writeYAML(t, "fleet.yaml", map[string]any{"local": map[string]any{"projects": []any{map[string]any{"name": "code", "driver": "shell", "repository": repo}}}})
		s := serve(t, h, "--places", "fake,local", "--config", h.path("fleet.yaml"))
		stdout, stderr, code := run(t, env, string(h), bin("node"), filepath.Join(dir, "tasks.mjs"), s.mcp()+"/all")
		require.Zero(t, code, stdout+stderr)
		require.Equal(t, "new", git("show", "main:a.txt"))
		t.Log("\n" + stdout)
	})
	t.Run("inspector", func(t *testing.T) {
		fake := agentTask{project: "Setup", role: "operator", task: `echo hello\ndone Well done`}
		shell := agentTask{project: "shell", role: "operator", task: `echo Well done`}
		for name, i := range map[string]inspection{
			"http":  {agentTask: fake, target: []string{s.mcp(), "--transport", "http"}},
			"stdio": {agentTask: fake, target: []string{"--transport", "stdio", "--", program(t), "mcp", "--server", s.grpc}},
			// Each call starts its own fleet with the same data. One call starts a task, and another call waits for its end.
			"embedded": {agentTask: shell, target: []string{"--transport", "stdio", "--", program(t), "mcp", "--embedded", "--data", h.path("inspected")}},
		} {
			for _, era := range []string{"legacy", "modern"} {
				i.agent, i.inspector = name+"-"+era, []string{bin("inspector"), "--cli", "--format", "json", "--protocol-era", era}
				t.Run(i.agent, func(t *testing.T) { i.inspect(t, h, env) })
			}
		}
	})
}

// agentTask is an agent's project and role, and a task for it.
type agentTask struct{ project, role, task string }

// inspection calls tools with the Inspector's command line. Each call starts a new client.
type inspection struct {
	agentTask
	agent             string
	inspector, target []string
}

// inspectorOutput is the Inspector's output for a call.
type inspectorOutput struct {
	Result struct {
		Content           []struct{ Text string }
		StructuredContent map[string]any
		IsError           bool
		Tools             []struct{ Name string }                   // the result of tools/list
		Messages          []struct{ Content struct{ Text string } } // of prompts/get
		Contents          []struct{ Text string }                   // of resources/read
	}
}

// inspect creates an agent, gives it the task, and reads the result with tools, a prompt and a resource.
func (i inspection) inspect(t *testing.T, h home, env []string) {
	ask := func(wantCode int, options ...string) (a inspectorOutput) {
		argv := append(append(append([]string{}, i.inspector...), options...), i.target...)
		stdout, stderr, code := run(t, env, string(h), argv...)
		require.Equal(t, wantCode, code, "%v: %s%s", options, stdout, stderr)
		require.NoError(t, json.Unmarshal([]byte(stdout), &a), stdout)
		return a
	}
	call := func(wantCode int, tool, args string) inspectorOutput {
		return ask(wantCode, "-q", "--method", "tools/call", "--tool-name", tool, "--tool-args-json", args)
	}

	// With --strict the exit code is 6 if some clients would refuse a schema.
	require.NotEmpty(t, ask(0, "--strict", "--method", "tools/list").Result.Tools)

	created := call(0, "create_agent", `{"name":"`+i.agent+`","project":"`+i.project+`","role":"`+i.role+`","spec":"Be inspected"}`)
	agent := created.Result.StructuredContent["agent"].(map[string]any)
	require.Equal(t, i.role, agent["role"])
	require.Equal(t, "idle", agent["status"])
	started := call(0, "start_agent_task", `{"agent_name":"`+i.agent+`","task_description":"`+i.task+`"}`)
	id := started.Result.StructuredContent["task"].(map[string]any)["id"].(string)
	require.Equal(t, true, call(0, "wait_tasks", `{"task_ids":["`+id+`"]}`).Result.StructuredContent["done"])
	history := call(0, "show_agent_task_history", `{"agent_name":"`+i.agent+`"}`)
	task := history.Result.StructuredContent["tasks"].([]any)[0].(map[string]any)
	require.Equal(t, []any{id, "completed", "Well done"}, []any{task["id"], task["status"], task["summary"]})

	review := ask(0, "--prompt-args", "task_id="+id, "--method", "prompts/get", "--prompt-name", "review")
	require.Contains(t, review.Result.Messages[0].Content.Text, "Review the work of task "+id)
	require.Contains(t, ask(0, "--method", "resources/read", "--uri", "fleet://task/"+id).Result.Contents[0].Text, `"summary":"Well done"`)

	const toolError = 5
	refused := call(toolError, "show_agent", `{"agent_name":"nobody"}`)
	require.True(t, refused.Result.IsError)
	require.Contains(t, refused.Result.Content[0].Text, `"error":"AGENT_NOT_FOUND"`)
}
