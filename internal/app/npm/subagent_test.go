package npm

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
)

// keySecret is a secret in the server's environment. An MCP server of a subagent uses it.
const keySecret = "s3cret-of-the-subagent"

// subagentFleet is a fleet with subagents that are Claude Code.
type subagentFleet struct {
	*server
	*model
	home home
	subs fleetv1.SubagentServiceClient
	env  []string
}

// newSubagentFleet starts a fleet with these definitions of subagents. definitions maps the name of a subagent to its
// agent.md, without the --- in the first line.
func newSubagentFleet(t *testing.T, definitions map[string]string) *subagentFleet {
	t.Helper()
	path := installClaude(t)
	s := &subagentFleet{model: newModel(t), home: newHome(t)}
	s.env = append(s.home.env(), "PATH="+filepath.Dir(path)+":"+os.Getenv("PATH"), "SERVICE_KEY="+keySecret)
	s.env = append(s.env, s.environ()...)
	for name, text := range definitions {
		require.NoError(t, os.MkdirAll(s.home.path("agents", name), 0o700))
		require.NoError(t, os.WriteFile(s.home.path("agents", name, "agent.md"), []byte("---\n"+strings.TrimSpace(text)), 0o600))
	}
	s.server = serveWithEnv(t, s.home, s.env)
	s.subs = fleetv1.NewSubagentServiceClient(s.conn)
	return s
}

// run runs the subagent with the lines of the prompt, and returns its answer.
func (s *subagentFleet) run(t *testing.T, name string, prompt ...string) *fleetv1.RunSubagentResponse {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), defaultTimeout)
	defer cancel()
	r, err := s.subs.RunSubagent(ctx, &fleetv1.RunSubagentRequest{AgentName: name, Prompt: strings.Join(prompt, "\n")})
	require.NoError(t, err)
	return r
}

// requestsWithSystem returns the requests to the model whose system prompt contains the text.
func (s *subagentFleet) requestsWithSystem(text string) (found []request) {
	s.model.mu.Lock()
	defer s.model.mu.Unlock()
	for _, q := range s.requests {
		if strings.Contains(q.System.text(), text) {
			found = append(found, q)
		}
	}
	return found
}

// TestClaudeSubagent checks that Claude Code receives exactly the prompt, tools and settings in the definition of a
// subagent.
func TestClaudeSubagent(t *testing.T) {
	installClaude(t) // skips the test before anything is built
	inner, err := json.Marshal([]any{map[string]any{
		"name": "inner", "command": program(t), "args": []string{"mcp", "--embedded", "--data", "data-of-inner"}, "env": map[string]string{"SERVICE_TOKEN": "${SERVICE_KEY}"},
	}})
	require.NoError(t, err)
	s := newSubagentFleet(t, map[string]string{"web-search": `
name: web-search
description: "Searches the web"
model: ` + pricedModel + `
timeout_ms: 100000
permissions:
  allow: ["Bash(echo:*)"]
  deny: ["Bash(echo secret:*)"]
mcp_servers: ` + string(inner) + `
---
You are a web search agent.
`})
	done := make(chan *fleetv1.RunSubagentResponse, 1)
	go func() {
		done <- s.run(t, "web-search", "--Find the birds.",
			`model: tool Bash {"command":"echo allowed"}`,
			`model: tool Bash {"command":"echo secret"}`,
			`model: tool Bash {"command":"touch denied.txt"}`,
			`model: tool mcp__inner__list_agent_projects {}`,
			"model: hang found",
		)
	}()
	g := s.gate("found")
	waitClosed(t, g.arrived, "the subagent did not reach the step hang")

	// The secret must be only in a file that the agent reads, and not in a command line.
	files, err := filepath.Glob(s.home.path("data", "agents", "*", "runs", "*", "mcp.json"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	info, err := os.Stat(files[0])
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	require.Contains(t, string(read(t, files[0])), keySecret)
	for _, p := range s.home.processes() {
		require.NotContains(t, p.command, keySecret)
	}
	close(g.open)

	r := <-done
	require.Equal(t, "Went on", r.GetResult())
	require.Equal(t, "web-search", r.GetAgent())
	require.Positive(t, r.GetDurationMs())
	require.InDelta(t, 5*answerCost, r.GetCostUsd(), 1e-9)
	require.Equal(t, pricedModel, r.GetUsage().GetModel())
	require.EqualValues(t, 5000, r.GetUsage().GetInputTokens())
	require.EqualValues(t, 2500, r.GetUsage().GetOutputTokens())
	require.EqualValues(t, 4, r.GetUsage().GetToolCalls())

	requests := s.requestsWith("--Find the birds.")
	require.Len(t, requests, 5)
	q := requests[4]
	require.Equal(t, pricedModel, q.Model)
	require.Contains(t, q.System.text(), "You are a web search agent.")
	require.NotContains(t, q.System.text(), "software engineering", "the subagent must receive only its own prompt")
	require.Contains(t, q.toolNames(), "Bash")
	require.Contains(t, q.toolNames(), "mcp__inner__list_agent_projects")
	for _, tool := range []string{"Read", "Write", "Edit", "WebFetch", "Task", "Agent", "mcp__fleet__run_subagent"} {
		require.NotContains(t, q.toolNames(), tool)
	}
	results := q.results()
	require.Len(t, results, 4)
	require.Equal(t, []bool{false, true, true, false}, []bool{results[0].IsError, results[1].IsError, results[2].IsError, results[3].IsError})
	require.Contains(t, results[0].Content.text(), "allowed")
	require.Contains(t, results[3].Content.text(), `"shell"`)

	// No directory, secret or conversation of the subagent may be left.
	require.Eventually(t, func() bool {
		left, _ := filepath.Glob(s.home.path("data", "agents", "*"))
		return len(left) == 0
	}, defaultTimeout, 10*time.Millisecond, "the directory of the subagent must be removed")
	require.NoError(t, filepath.WalkDir(string(s.home), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			require.NotContains(t, string(read(t, path)), keySecret, path)
			require.False(t, strings.Contains(path, ".claude/projects/") && filepath.Ext(path) == ".jsonl", "a conversation that cannot be continued must not be stored: %s", path)
		}
		return err
	}))
	for _, line := range s.logLines() {
		require.NotContains(t, line, keySecret)
	}
}

// TestClaudeSubagents uses a subagent that keeps its conversation, a subagent with a schema for its output, and a
// subagent that calls another subagent. It also cancels a call.
func TestClaudeSubagents(t *testing.T) {
	s := newSubagentFleet(t, map[string]string{
		"memo":    "session: true\npermissions: {allow: []}\n---\nYou remember.",
		"counter": "output_schema: {type: object, required: [count]}\n---\nYou count.",
		"lead":    "calls: [helper]\npermissions: {allow: []}\n---\nYou lead.",
		"helper":  "allowed_callers: [lead]\n---\nYou help.",
	})
	t.Run("a conversation", func(t *testing.T) {
		one := s.run(t, "memo", "Name the birds.", "model: say Ducks")
		require.Equal(t, "Ducks", one.GetResult())
		two := s.run(t, "memo", "Count them.", "model: say Seven")
		require.Equal(t, "Seven", two.GetResult())
		require.Equal(t, one.GetSessionId(), two.GetSessionId())
		q := s.requestsWith("Count them.")[0]
		require.Contains(t, q.conversationText(), "assistant: Ducks")
		for _, tool := range q.toolNames() {
			require.Equal(t, "DeferredToolPlaceholder", tool, "a subagent with an empty list of tools must have no tools")
		}
	})
	t.Run("an answer that matches its schema at the second attempt", func(t *testing.T) {
		r := s.run(t, "counter", "How many?", "model: say Many", `model: say {"count": 7}`)
		require.JSONEq(t, `{"count":7}`, r.GetResult())
		requests := s.requestsWith("How many?")
		require.Contains(t, requests[0].System.text(), `"required":["count"]`)
		require.Contains(t, requests[len(requests)-1].conversationText(), "Your answer cannot be used: it is not JSON")
	})
	t.Run("one runs another", func(t *testing.T) {
		r := s.run(t, "lead", "Delegate.", `model: tool mcp__fleet__run_subagent {"agent_name":"helper","prompt":"Help.\nmodel: say from below"}`,
			`model: tool mcp__fleet__run_subagent {"agent_name":"memo","prompt":"model: say no"}`, "model: say done")
		require.Equal(t, "done", r.GetResult())
		requests := s.requestsWith("Delegate.")
		results := requests[len(requests)-1].results()
		require.Len(t, results, 2)
		require.False(t, results[0].IsError, results[0].Content.text())
		require.Contains(t, results[0].Content.text(), `"result":"from below"`)
		require.True(t, results[1].IsError)
		require.Contains(t, results[1].Content.text(), "PERMISSION_DENIED")
		require.Contains(t, requests[0].toolNames(), "mcp__fleet__run_subagent")
		for _, tool := range s.requestsWithSystem("You help.")[0].toolNames() {
			require.NotContains(t, tool, "mcp__fleet", "a subagent that may call no others must not have the tool")
		}
		_, err := s.subs.RunSubagent(t.Context(), &fleetv1.RunSubagentRequest{AgentName: "helper", Prompt: "model: say no"})
		require.Equal(t, codes.PermissionDenied, status.Code(err))
	})
	t.Run("a call that is cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := s.subs.RunSubagent(ctx, &fleetv1.RunSubagentRequest{AgentName: "memo", Prompt: "model: hang cancelled"})
			ended <- err
		}()
		g := s.gate("cancelled")
		waitClosed(t, g.arrived, "the call did not reach the model")
		cancel()
		require.Equal(t, codes.Canceled, status.Code(<-ended))
		waitClosed(t, g.left, "the request to the model was not cancelled")
		s.requireNoProcesses(t)
	})
}

// TestClaudeMainAgent uses Claude Code as the main agent, which delegates to a subagent over MCP.
func TestClaudeMainAgent(t *testing.T) {
	path := installClaude(t)
	s := newSubagentFleet(t, map[string]string{"web-search": "description: Searches the web\n---\nYou search."})
	s.home.writeMCPConfig(t, "jarvis-subagents", map[string]any{"type": "http", "url": s.mcp() + "/subagents"})
	stdout, stderr, code := run(t, s.env, string(s.home), path, "-p", "--verbose", "--output-format", "stream-json",
		"--mcp-config", s.home.path("mcp.json"), "--strict-mcp-config", "--allowedTools", "mcp__jarvis-subagents", "--",
		"Find out.\nmodel: tool mcp__jarvis-subagents__list_subagents {}\n"+
			`model: tool mcp__jarvis-subagents__run_subagent {"agent_name":"web-search","prompt":"model: say Ducks","context":"About birds."}`+"\nmodel: say They are ducks.")
	require.Zero(t, code, stdout+stderr)
	_, end := firstAndLast(t, stdout)
	require.Equal(t, "They are ducks.", end.Result)
	requests := s.requestsWith("Find out.")
	results := requests[len(requests)-1].results()
	require.Len(t, results, 2)
	require.Contains(t, results[0].Content.text(), `"name":"web-search"`)
	require.Contains(t, results[1].Content.text(), `"result":"Ducks"`)
	require.Contains(t, results[1].Content.text(), `"agent":"web-search"`)
	require.Contains(t, s.requestsWithSystem("You search.")[0].conversationText(), "Context:\n\nAbout birds.")
}
