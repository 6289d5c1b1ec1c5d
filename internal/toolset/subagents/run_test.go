package subagents_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/service"
	"fleet/internal/toolset/subagents"
	"fleet/internal/waittest"
)

// exampleFrontmatter is a definition that uses most keys of the frontmatter.
const exampleFrontmatter = `name: web-search
description: "Searches the web and returns summarized results"
session: false              # false = stateless, true = persistent sessions
allowed_callers: [main]     # access control (enforced server-side)
timeout_ms: 30000           # per-agent timeout override
permissions:
  allow: ["Bash(curl:*)", "Bash(wget:*)"]
  deny: []
mcp_servers:
  - name: brave-search
    command: npx
    args: ["-y", "@anthropic/mcp-server-brave-search"]
    env:
      BRAVE_API_KEY: "${KEY}"`

// TestRun checks a call: how the program is started, the result, and that the agent and its secret are gone afterwards.
func TestRun(t *testing.T) {
	t.Parallel()
	w := newTestService(t, nil)
	w.define("web-search", exampleFrontmatter, "\nYou are a web search agent. Given a query, search the web\nand return a concise summary of the findings.\n")
	r, err := w.Run(w.ctx(), subagents.Request{Agent: "web-search", Prompt: "--say no\nsay Ducks", Context: "About birds."})
	require.NoError(t, err)
	require.Equal(t, "Ducks", r.Text)
	require.Equal(t, "web-search", r.Agent)
	require.Positive(t, r.Duration)
	require.Empty(t, r.SessionID)
	require.InDelta(t, 0.25, r.CostUSD, 1e-9)
	require.Equal(t, fleet.Usage{Model: "opus", InputTokens: 100, OutputTokens: 10}, r.Usage)
	require.Empty(t, r.Warnings)
	withoutServer, err := w.Run(w.ctx(), subagents.Request{Agent: "web-search", Prompt: "break it\nsay Ducks"})
	require.NoError(t, err)
	require.Equal(t, []string{`the MCP server "tickets" did not start, so its tools are missing`}, []string(withoutServer.Warnings))

	c := w.calls()[0]
	require.Equal(t, "Context:\n\nAbout birds.\n\nTask:\n\n--say no\nsay Ducks", c.Prompt)
	require.Equal(t, "You are a web search agent. Given a query, search the web\nand return a concise summary of the findings.", c.System)
	require.Equal(t, "Bash", c.flag("--tools"))
	require.Equal(t, "Bash(curl:*),Bash(wget:*),mcp__brave-search", c.flag("--allowedTools"))
	require.NotContains(t, c.Argv, "--disallowedTools")
	require.Contains(t, c.Argv, "--strict-mcp-config")
	require.JSONEq(t, `{"mcpServers":{"brave-search":{"command":"npx","args":["-y","@anthropic/mcp-server-brave-search"],"env":{"BRAVE_API_KEY":"s3cret"}}}}`, string(c.MCP))
	require.Equal(t, os.FileMode(0o600), c.MCPMode)
	require.NotContains(t, strings.Join(append(c.Argv, c.Env...), "\n"), "s3cret")

	// The agent is deleted, and no file has the secret.
	w.fleet.WaitStored(func() bool { return len(w.agents()) == 0 })
	require.NoError(t, filepath.WalkDir(w.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && filepath.Dir(path) != filepath.Join(w.dir, "home", "calls") {
			b, _ := os.ReadFile(path)
			require.NotContains(t, string(b), "s3cret", path)
		}
		return nil
	}))

	// Each call has a fresh agent.
	require.Equal(t, "Geese", w.mustRun("web-search", "say Geese").Text)
	require.NotContains(t, w.calls()[1].Argv, "--resume")
}

func TestRunIsRefused(t *testing.T) {
	t.Parallel()
	w := newTestService(t, nil)
	w.define("good", "description: x", "Do it.")
	w.define("private", "allowed_callers: [bob]", "Do it.")
	w.define("thief", "mcp_servers: [{name: a, url: 'https://example.com', headers: {K: '${FLEET_TOKEN}'}}]", "Do it.")
	_, err := w.run("thief", "x")
	requireReason(t, err, fleet.ReasonDefinitionInvalid, "FLEET_TOKEN is not set")
	_, err = w.Run(w.ctx(), subagents.Request{Agent: "good", Prompt: strings.Repeat("x", 1<<20), Context: "y"})
	requireReason(t, err, fleet.ReasonInvalidArgument, "and its context")
	_, err = w.Run(asRoot(t.Context()), subagents.Request{Agent: "private", Prompt: "x"})
	requireReason(t, err, fleet.ReasonPermissionDenied)
	require.Empty(t, w.calls(), "a refused request must not start anything")
}

// TestRunIsCancelled checks that a call whose context ends stops its run, and that the conversation can continue.
func TestRunIsCancelled(t *testing.T) {
	t.Parallel()
	for _, session := range []string{"false", "true"} {
		t.Run("session "+session, func(t *testing.T) {
			t.Parallel()
			w := newTestService(t, nil)
			w.define("a", "session: "+session, "Do it.")
			ctx, cancel := context.WithCancel(w.ctx())
			done := w.runInBackground(ctx, subagents.Request{Agent: "a", Prompt: "tell Begun.\nhang"})
			w.fleet.WaitStored(w.hasOutput) // a conversation that claude has not begun cannot continue
			cancel()
			require.ErrorIs(t, <-done, context.Canceled)
			require.Empty(t, w.processes(), "the run must have ended when the call returns")
			if session == "true" {
				require.Equal(t, "again", w.mustRun("a", "say again").Text)
				require.Contains(t, w.calls()[1].Argv, "--resume", "the conversation must continue")
			}
		})
	}
}

// TestRunDuringShutdown checks that a shutdown of the server leaves runs alone, and that the repeated request gets
// their result.
func TestRunDuringShutdown(t *testing.T) {
	t.Parallel()
	for name, frontmatter := range map[string]string{"plain": "", "session": "session: true", "json": "output_format: json"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestService(t, nil)
			w.define("a", frontmatter, "Do it.")
			r := subagents.Request{Agent: "a", Prompt: "wait\nsay 1", RequestID: "one"}
			ctx, cancel := context.WithCancelCause(w.ctx())
			done := w.runInBackground(ctx, r)
			w.waitForCalls(1)
			cancel(fleet.ErrShutdown) // the server cancels its calls in this way at shutdown
			require.ErrorIs(t, <-done, context.Canceled)
			require.NotEmpty(t, w.processes())
			w.releaseWaiting()
			again, err := w.Run(w.ctx(), r)
			require.NoError(t, err)
			require.Equal(t, "1", again.Text)
			require.Len(t, w.calls(), 1)
		})
	}
}

func TestRunLongTexts(t *testing.T) {
	t.Parallel()
	w := newTestService(t, nil)
	w.define("a", "", "Do it.")
	long := "say read\n" + strings.Repeat("x", 1<<20-9)
	require.Equal(t, "read", w.mustRun("a", long).Text)
	require.Equal(t, long, w.calls()[0].Prompt)
	require.Len(t, w.mustRun("a", "big 300000").Text, 300000, "a long answer must be complete")
}

// TestRequestID checks that concurrent and repeated calls of one request run the subagent once.
func TestRequestID(t *testing.T) {
	t.Parallel()
	w := newTestService(t, nil)
	w.define("a", "", "Do it.")
	w.define("s", "session: true", "Do it.")
	for _, name := range []string{"a", "s"} {
		r := subagents.Request{Agent: name, Prompt: "wait\nsay once", RequestID: "r-" + name}
		before := len(w.calls())
		var successes atomic.Int32
		call := func() {
			got, err := w.Run(w.ctx(), r)
			if err == nil && got.Text == "once" {
				successes.Add(1)
			}
		}
		if name == "s" {
			w.releaseWaiting()
		} else {
			go func() { w.waitForCalls(before + 1); w.releaseWaiting() }()
		}
		runConcurrently(call, call, call)
		require.EqualValues(t, 3, successes.Load())
		require.Len(t, w.calls(), before+1, "concurrent calls of one request must run once")
		require.NoError(t, os.Remove(filepath.Join(w.dir, "home", "open")))

		// This also holds if the definition has changed since.
		w.define(name, "session: "+map[string]string{"a": "false", "s": "true"}[name], "Do it better.")
		call()
		require.EqualValues(t, 4, successes.Load())
		require.Len(t, w.calls(), before+1)

		changedRequest := r
		changedRequest.Prompt = "say another"
		_, err := w.Run(w.ctx(), changedRequest)
		requireReason(t, err, fleet.ReasonInvalidArgument, "was used before")
		// Another principal's request ids are separate.
		changedRequest.Prompt = "say bob's"
		got, err := w.Run(asPrincipal(t.Context(), "bob"), changedRequest)
		require.NoError(t, err)
		require.Equal(t, "bob's", got.Text)
	}
}

// TestRunInWorkspace checks subagents that run in workspaces: results, time limits, unknown projects and conversations.
func TestRunInWorkspace(t *testing.T) {
	t.Parallel()
	w := newTestService(t, func(c *subagents.Config) { c.StartWait = waittest.Limit })
	w.define("code_review", "{container: coder, project: setup, timeout_ms: 600000}", "You review.")
	w.define("lost", "{container: coder, project: nowhere}", "You review.")
	w.define("talk", "{container: coder, project: Setup, session: true}", "You talk.")
	r := w.mustRun("code_review", "echo looking\nusage gpt 5 6\ncost 0.5 2\ndone fine")
	require.Equal(t, "fine", r.Text)
	require.Equal(t, fleet.Usage{Model: "gpt", InputTokens: 5, OutputTokens: 6}, r.Usage)
	require.InDelta(t, 0.5, r.CostUSD, 1e-9)
	w.fleet.WaitStored(func() bool { return len(w.agents()) == 0 })

	// The time limit begins when the workspace is ready.
	w.define("slow", "{container: coder, project: setup, timeout_ms: 100}", "You review.")
	_, err := w.run("slow", "listen")
	requireReason(t, err, fleet.ReasonTaskTimedOut, "was too slow", "100ms")
	w.fleet.WaitStored(func() bool { return len(w.agents()) == 0 })

	_, err = w.run("lost", "done x")
	requireReason(t, err, fleet.ReasonProjectNotFound, "nowhere")

	first := w.mustRun("talk", "done one")
	require.Equal(t, "one", first.Text)
	second := w.mustRun("talk", "done two")
	require.Equal(t, first.SessionID, second.SessionID)
	agents := w.agents()
	require.Len(t, agents, 1)
	require.Equal(t, "You talk.", agents[0].Spec)
	require.Equal(t, "Setup", agents[0].Project)
	require.Empty(t, w.calls(), "no process on this machine must be started")
}

// TestSweep checks that the sweep deletes an abandoned agent, and keeps the agent of a conversation.
func TestSweep(t *testing.T) {
	t.Parallel()
	w := newTestService(t, func(c *subagents.Config) { c.SweepEvery = 50 * time.Millisecond })
	w.define("s", "session: true", "Do it.")
	first := w.mustRun("s", "say hello")
	_, err := w.fleet.Launch(w.ctx(), service.LaunchRequest{Toolset: fleet.ToolsetSubagents, Place: "local", Name: "left", Config: &fleet.AgentConfig{Driver: "claude"}})
	require.NoError(t, err)
	w.fleet.WaitStored(func() bool { return len(w.agents()) == 1 })
	require.Equal(t, first.SessionID, w.mustRun("s", "say hello").SessionID)
}

// TestRunWithACancelledContext checks that a call whose context has ended starts nothing.
func TestRunWithACancelledContext(t *testing.T) {
	t.Parallel()
	w := newTestService(t, nil)
	w.define("a", "", "Do it.")
	ctx, cancel := context.WithCancel(w.ctx())
	cancel()
	_, err := w.Run(ctx, subagents.Request{Agent: "a", Prompt: "say x"})
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, w.agents())
}
