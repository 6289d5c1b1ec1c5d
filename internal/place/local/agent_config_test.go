package local_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/shim"
	"fleet/internal/waittest"
)

// configuredAgent returns an agent with the configuration and without a project.
func configuredAgent(c fleet.AgentConfig) fleet.Agent {
	return fleet.Agent{UID: uuid.NewString(), Name: "web-search-1", Owner: "alice", Toolset: fleet.ToolsetSubagents, Config: &c}
}

// durationPattern matches the duration in the step of a tool call. The step has none if the call took less than a millisecond.
var durationPattern = regexp.MustCompile(`,"duration":\d+`)

// TestAgentConfig checks the arguments, the input and the environment that claude gets from a configuration, and that its secrets
// are removed with the run.
func TestAgentConfig(t *testing.T) {
	t.Parallel()
	const secret = "brave-s3cret"
	w := newClaudePlace(t, local.Role{}, func(c *local.Config) {
		c.Environ = append(c.Environ, "BRAVE_API_KEY="+secret, "EXTRA=passed on", "NOT_NAMED=stays")
	})
	a := configuredAgent(fleet.AgentConfig{
		Driver: "claude", SystemPrompt: "You search the web.", ReplacesSystemPrompt: true, Model: "haiku",
		Allow: []string{"Bash(curl:*)", "Bash(wget:*)", "Read"}, Deny: []string{"Bash(rm:*)"}, PassEnv: []string{"EXTRA"},
		MCPServers: []fleet.MCPServer{
			{Name: "brave", Command: "npx", Args: []string{"-y", "brave"}, Env: map[string]string{"KEY": "x-${BRAVE_API_KEY}-$y", "PLAIN": "p"}},
			{Name: "web", URL: "https://example.com", Headers: map[string]string{"Authorization": "Bearer ${BRAVE_API_KEY}"}},
		},
	})
	a.OneTask = true
	w.provision(a)
	w.script("s-1", "", claudeInit, claudeSays, claudeToolResult, claudeDoneWithUsage)
	r := w.start(a, "--help me")
	outputs, o := w.outputs(a, r, "")
	require.Equal(t, fleet.Outcome{
		Status: fleet.TaskCompleted, Summary: "All is well.", Payload: []byte("All is well."), EndedAt: o.EndedAt, CostUSD: 0.0421, Turns: 3, HasConversation: true, SessionID: "s-1", ExitCode: new(int),
		Usage: fleet.Usage{Model: "opus", InputTokens: 112, OutputTokens: 34, ToolCalls: 1},
	}, o)
	require.Equal(t, "I will look.\n<Bash: ls -l>\n", outputText(outputs))
	require.JSONEq(t, `{"type":"tool_call","id":"t1","name":"Bash","arguments":{"command":"ls\n  -l","description":"List"}}`, string(outputs[2].Data))
	require.JSONEq(t, `{"type":"tool_result","id":"t1","name":"Bash","result":"file"}`, durationPattern.ReplaceAllString(string(outputs[3].Data), ""))

	require.Equal(t, []string{
		"-p", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json", "--replay-user-messages", "--include-partial-messages", "--include-hook-events", "--forward-subagent-text", "--setting-sources", "", "--model", "haiku",
		"--tools", "Bash,Read", "--allowedTools", "Bash(curl:*),Bash(wget:*),Read,mcp__brave,mcp__web", "--disallowedTools", "Bash(rm:*)",
		"--mcp-config", w.runDir(a, r, "mcp.json"), "--strict-mcp-config", "--no-session-persistence",
	}, w.argv())
	require.Equal(t, "--help me", w.prompt())
	require.Contains(t, w.file("initialize"), `"systemPrompt":"You search the web."`)
	require.JSONEq(t, `{"mcpServers":{
		"brave":{"command":"npx","args":["-y","brave"],"env":{"KEY":"x-brave-s3cret-$y","PLAIN":"p"}},
		"web":{"type":"http","url":"https://example.com","headers":{"Authorization":"Bearer brave-s3cret"}}}}`, w.file("mcp.json"))
	require.Equal(t, "600\n", w.file("mode"))
	require.Contains(t, w.file("environment"), "EXTRA=passed on\n")
	require.NotContains(t, w.file("environment"), "NOT_NAMED")
	require.NotContains(t, w.file("environment"), secret)

	// The secret was only in a file of the run, which was removed with the run.
	require.NoError(t, filepath.WalkDir(w.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			b := readFile(t, path)
			require.NotContains(t, b, secret, path)
		}
		return err
	}))
	w.remove(a)
	require.NoDirExists(t, w.home(a))
}

const claudeDoneWithUsage = `{"type":"result","subtype":"success","is_error":false,"num_turns":3,"result":"All is well.","total_cost_usd":0.0421,"session_id":"SESSION","usage":{"input_tokens":100,"cache_read_input_tokens":5,"cache_creation_input_tokens":7,"output_tokens":34}}`

// TestAgentConfigTools checks which tools claude gets from the lists in a configuration.
func TestAgentConfigTools(t *testing.T) {
	t.Parallel()
	servers := []fleet.MCPServer{{Name: "a", Command: "a"}, {Name: "b", Command: "b"}}
	for _, tc := range []struct {
		name           string
		allow          []string
		report         bool
		tools, allowed string // "-": the flag is absent
	}{
		{"all tools without a list", nil, false, "-", "mcp__a,mcp__b"},
		{"no tools with an empty list", []string{}, false, "", "-"},
		{"an empty list and a report", []string{}, true, "", "mcp__fleet"},
		{"only the tools in the list", []string{"Bash(ls)", "Read(//tmp/**)", "Bash(git log:*)"}, false, "Bash,Read", "Bash(ls),Read(//tmp/**),Bash(git log:*),mcp__a,mcp__b"},
		{"some tools of a server", []string{"mcp__a__search"}, true, "", "mcp__a__search,mcp__b,mcp__fleet"},
		{"all tools of a server", []string{"mcp__b", "Edit"}, false, "Edit", "mcp__b,Edit,mcp__a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newClaudePlace(t, local.Role{})
			a := w.provision(configuredAgent(fleet.AgentConfig{Driver: "claude", Allow: tc.allow, MCPServers: servers}))
			w.script("s-1", "", claudeDone)
			r := newRun("go")
			if tc.report {
				r.FleetEndpoint = &fleet.ServerEndpoint{URL: "http://127.0.0.1:1/mcp", Token: "t0ken"}
			}
			_, o := w.execute(a, r)
			require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
			flag := func(name string) string {
				for i, arg := range w.argv() {
					if arg == name {
						return w.argv()[i+1]
					}
				}
				return "-"
			}
			require.Equal(t, tc.tools, flag("--tools"))
			require.Equal(t, tc.allowed, flag("--allowedTools"))
			require.NotContains(t, w.argv(), "--no-session-persistence", "the conversation must be kept for another task")
			require.Equal(t, tc.report, strings.Contains(w.file("mcp.json"), `"fleet":{"type":"http","url":"http://127.0.0.1:1/mcp","headers":{"Authorization":"Bearer t0ken"}}`))
			require.NotContains(t, w.file("argv")+w.file("environment"), "t0ken")
			require.NoFileExists(t, w.runDir(a, r, "report-token"))
		})
	}
}

func TestAgentConfigIsRefused(t *testing.T) {
	t.Parallel()
	w := newClaudePlace(t, local.Role{})
	for _, tc := range []struct {
		want        string
		agentConfig fleet.AgentConfig
	}{
		{`no driver "cagent": it has shell, claude, codex, acp, command, gemini`, fleet.AgentConfig{Driver: "cagent"}},
		{`there is no project ""`, fleet.AgentConfig{Reports: true}},
		{`needs the option command`, fleet.AgentConfig{Driver: "command"}},
		{`is not a valid template`, fleet.AgentConfig{Driver: "command", Command: []string{"x", "{{.Nothing}}"}}},
		{`cannot restrict tools or provide MCP servers`, fleet.AgentConfig{Driver: "shell", Allow: []string{}}},
		{`cannot restrict tools or provide MCP servers`, fleet.AgentConfig{Driver: "shell", Deny: []string{"Bash"}}},
		{`cannot enforce deny: Read(*.env)`, fleet.AgentConfig{Driver: "acp", Command: []string{"true"}, Deny: []string{"Bash", "Read(*.env)"}}},
		{`cannot restrict tools or provide MCP servers`, fleet.AgentConfig{Driver: "command", Command: []string{"true"}, MCPServers: []fleet.MCPServer{{Name: "a"}}}},
		{`cannot have the name "fleet"`, fleet.AgentConfig{Driver: "claude", MCPServers: []fleet.MCPServer{{Name: "fleet"}}}},
		{`cannot have the name "a"`, fleet.AgentConfig{Driver: "claude", MCPServers: []fleet.MCPServer{{Name: "a"}, {Name: "a"}}}},
		{`"FLEET_TOKEN" is reserved for Fleet`, fleet.AgentConfig{Driver: "shell", PassEnv: []string{"FLEET_TOKEN"}}},
		{`is not a directory on this machine`, fleet.AgentConfig{Driver: "shell", Dir: "relative"}},
		{`is not a directory on this machine`, fleet.AgentConfig{Driver: "shell", Dir: "/nowhere/at/all"}},
		{`was not found on the server's PATH`, fleet.AgentConfig{Driver: "command", Command: []string{"no-such-program"}}},
	} {
		_, err := w.Provision(w.ctx, configuredAgent(tc.agentConfig))
		requireError(t, err, fleet.ReasonProvisioningFailed, tc.want)
		require.Equal(t, strings.Contains(tc.want, "PATH"), fleet.ReasonCodeOf(err) == fleet.CodeProgramMissing)
	}
	all, err := w.List(w.ctx)
	require.NoError(t, err)
	require.Empty(t, all, "a refused agent must not have a workspace")
}

// TestAgentConfigVariables checks that Dispatch reports a variable that is missing or forbidden, before any program
// starts.
func TestAgentConfigVariables(t *testing.T) {
	t.Parallel()
	w := newClaudePlace(t, local.Role{})
	for text, want := range map[string]string{
		"${MISSING}": "MISSING is not set", "${FLEET_TOKEN}": "FLEET_TOKEN is not set", "${": "is not followed by", "${A-b}": "is not followed by",
	} {
		a := w.provision(configuredAgent(fleet.AgentConfig{Driver: "claude", MCPServers: []fleet.MCPServer{{Name: "a", Command: "a", Env: map[string]string{"KEY": text}}}}))
		r := newRun("go")
		err := w.Connect(a).Dispatch(w.ctx, r)
		requireError(t, err, fleet.ReasonProvisioningFailed, want)
		require.Contains(t, fleet.PublicMessage(err), `KEY of the MCP server "a"`)
		require.NoFileExists(t, filepath.Join(w.homeDir, "argv"))
	}
}

func TestAgentConfigConversation(t *testing.T) {
	t.Parallel()
	w := newClaudePlace(t, local.Role{})
	a := w.provision(configuredAgent(fleet.AgentConfig{Driver: "claude", SystemPrompt: "You review."}))
	w.script("s-1", "", claudeInit, claudeSays, claudeDone)
	w.runTask(a, "one")
	require.NotContains(t, w.argv(), "--resume")
	w.runTask(a, "two")
	require.Contains(t, w.file("initialize"), `"appendSystemPrompt":"You review.`)
	require.Contains(t, strings.Join(w.argv(), " "), "--resume s-1")
	require.Equal(t, "two", w.prompt())

	// A text that is both the specification and the system prompt is passed only once.
	both := configuredAgent(fleet.AgentConfig{Driver: "claude", SystemPrompt: "You review."})
	both.Spec = "You review."
	w.runTask(w.provision(both), "three")
	require.Contains(t, w.file("initialize"), `"appendSystemPrompt":"You review."`)
}

// TestOneTaskConversation runs two tries of the only task of an agent. The agent of a pool continues the conversation. The other agent's
// conversation is not stored, so the second try begins a new one, with the task.
func TestOneTaskConversation(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pool   string
		prompt string // of the second try
	}{
		"in a pool":     {"web", "go on"},
		"not in a pool": {"", "(The conversation that you had before could not be restored. This is a new conversation.)\n\none\n\ngo on"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, a := newClaudeAgent(t)
			a.OneTask, a.Pool = true, tc.pool
			w.script("s-1", "", claudeInit, claudeDone)
			_, o := w.runTask(a, "one")
			require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
			require.Equal(t, tc.pool == "", slices.Contains(w.argv(), "--no-session-persistence"))
			r := newRun("one")
			r.Feedback, r.Continues = "go on", true
			_, o = w.execute(a, r)
			require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
			require.Equal(t, tc.pool != "", slices.Contains(w.argv(), "--resume"))
			require.Equal(t, tc.prompt, w.prompt())
		})
	}
}

func TestAgentConfigOfCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := newTestPlace(t, nil)
	endpoint := &fleet.ServerEndpoint{URL: "http://127.0.0.1:1/mcp", Token: "t0ken"}
	a := w.provision(configuredAgent(fleet.AgentConfig{Driver: "shell", Dir: dir}))
	r := newRun(`pwd; echo "$FLEET_REPORT_URL"; stat -c %a "$FLEET_REPORT_TOKEN_FILE"; cat "$FLEET_REPORT_TOKEN_FILE"; env | grep -c t0ken || true`)
	r.FleetEndpoint = endpoint
	output, o := w.execute(a, r)
	require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
	require.Equal(t, dir+"\nhttp://127.0.0.1:1/mcp\n600\nt0ken0\n", output)
	require.NoFileExists(t, w.runDir(a, r, "report-token"))
	ws, err := w.Inspect(w.ctx, a)
	require.NoError(t, err)
	require.Equal(t, dir, ws.Location)
	w.remove(a)
	require.DirExists(t, dir, "Delete must not remove a directory that is not the agent's own")

	cat := w.provision(configuredAgent(fleet.AgentConfig{Driver: "command", Command: []string{"cat"}, SystemPrompt: "You are a cat."}))
	output, _ = w.runTask(cat, "Purr.")
	require.Equal(t, "You are a cat.\n\nYour task now:\n\nPurr.", output, "a command without templates must receive the instructions and the task on its standard input")
	echo := w.provision(configuredAgent(fleet.AgentConfig{Driver: "command", Command: []string{"printf", "%s|", "{{.Model}}", "{{.Prompt}}"}, Model: "m"}))
	output, _ = w.runTask(echo, "--Hi")
	require.Equal(t, "m|--Hi|", output)
}

// TestReportingConfig checks that an agent with a project keeps the settings of the project if its configuration only
// sets Reports.
func TestReportingConfig(t *testing.T) {
	t.Parallel()
	w := newClaudePlace(t, local.Role{Prompt: "You write code."})
	a := configuredAgent(fleet.AgentConfig{Reports: true})
	a.Project, a.Role = "claude", "coder"
	w.provision(a)
	w.script("s-1", "", claudeDone)
	r := newRun("go")
	r.FleetEndpoint = &fleet.ServerEndpoint{URL: "http://127.0.0.1:1/mcp", Token: "t0ken"}
	w.execute(a, r)
	require.Contains(t, w.argv(), "project", "the settings of the project must be used")
	require.Contains(t, w.file("initialize"), "You write code.")
	require.Contains(t, w.argv(), "mcp__fleet")
	require.Contains(t, w.file("mcp.json"), "t0ken")
}

// TestAgentConfigOfKnownCLI runs an agent CLI that Fleet knows. The configuration has only its name.
func TestAgentConfigOfKnownCLI(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "codex"), []byte(`#!/usr/bin/env bash
printf '{"type":"item.completed","item":{"type":"agent_message","text":"%s"}}\n{"type":"turn.completed"}\n' "$*, $(cat)"
`), 0o700))
	w := newTestPlace(t, func(c *local.Config) { c.Environ = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=" + dir} })
	a := w.provision(configuredAgent(fleet.AgentConfig{Driver: "codex", Model: "o9"}))
	_, o := w.runTask(a, "go")
	require.Regexp(t, "^exec --json --skip-git-repo-check --sandbox [a-z-]+ --model o9 -, go$", o.Summary)
	require.Contains(t, w.Traits().DriverNames(), "codex")
}

// requestsScript is a script for the fake claude. It begins an answer of the model, and completes it when the test creates the
// file open. Unless the stop reason STOP is end_turn, it then waits, as during a tool call.
const requestsScript = `
say() { printf '%s\n' "$@"; }
trap 'say "{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"got TERM\"}]},\"session_id\":\"s\"}"; exit 143' TERM
say '{"type":"system","subtype":"status","status":"requesting"}'
say '{"type":"stream_event","event":{"type":"message_start"},"parent_tool_use_id":null}'
say '{"type":"assistant","message":{"content":[{"type":"text","text":"asking"}]},"session_id":"s"}'
until [ -e "$HOME/open" ]; do sleep 0.02; done
say '{"type":"assistant","message":{"content":[{"type":"text","text":"answered"}]},"session_id":"s"}'
say '{"type":"stream_event","event":{"type":"message_delta","delta":{"stop_reason":"'"$STOP"'"}},"parent_tool_use_id":null}'
say '{"type":"stream_event","event":{"type":"message_stop"},"parent_tool_use_id":null}'
[ "$STOP" = end_turn ] || sleep 3600 & wait $!
say '{"type":"result","subtype":"success","result":"all done","session_id":"s"}'
`

// interruptedScript is a script for the fake claude. A tool call is active until the client interrupts the turn.
const interruptedScript = `
say() { printf '%s\n' "$@"; }
end() {
  say '{"type":"control_response","response":{"subtype":"success","request_id":"fleet-2"}}'
  sleep 0.2
  say '{"type":"result","subtype":"error_during_execution","is_error":true,"result":"cancelled","session_id":"s"}'
  exit 0
}
trap end TERM
say '{"type":"stream_event","event":{"type":"message_start"},"parent_tool_use_id":null}'
say '{"type":"stream_event","event":{"type":"message_stop"},"parent_tool_use_id":null}'
say '{"type":"assistant","message":{"content":[{"type":"text","text":"working"}]},"session_id":"s"}'
sleep 3600 & wait $!
`

// TestSoftInterrupt checks that a soft interrupt waits until the agent is between two requests to its model.
func TestSoftInterrupt(t *testing.T) {
	t.Parallel()
	endpoint := &fleet.ServerEndpoint{URL: "http://127.0.0.1:1/mcp", Token: "t"}
	begin := func(t *testing.T, grace time.Duration, stopReason string, endpoint *fleet.ServerEndpoint) (*claudePlace, fleet.Agent, fleet.Run) {
		w := newClaudePlace(t, local.Role{}, func(c *local.Config) { c.StopGrace = grace })
		a := w.provision(configuredAgent(fleet.AgentConfig{Driver: "claude"}))
		w.script("s", "STOP="+stopReason+"\n"+requestsScript)
		r := newRun("go")
		r.FleetEndpoint = endpoint
		require.NoError(t, w.Connect(a).Dispatch(w.ctx, r))
		w.followUntil(a, r, "asking")
		return w, a, r
	}
	completeAnswer := func(w *claudePlace) {
		require.NoError(w.t, os.WriteFile(filepath.Join(w.homeDir, "open"), nil, 0o600))
	}
	t.Run("an interrupt waits for the active answer", func(t *testing.T) {
		t.Parallel()
		w, a, r := begin(t, waittest.Limit, "tool_use", endpoint)
		require.Contains(t, w.argv(), "--include-partial-messages")
		w.interrupt(a, r)
		completeAnswer(w)
		output, o := w.follow(a, r)
		require.Equal(t, "asking\nanswered\ngot TERM\n", output, "events of the stream must not be in the output")
		require.Equal(t, fleet.TaskStopped, o.Status)
	})
	t.Run("the last answer ends the run by itself", func(t *testing.T) {
		t.Parallel()
		w, a, r := begin(t, waittest.Limit, "end_turn", endpoint)
		w.interrupt(a, r)
		completeAnswer(w)
		output, o := w.follow(a, r)
		require.Equal(t, "asking\nanswered\n", output)
		require.Equal(t, fleet.TaskStopped, o.Status)
		require.Equal(t, "all done", o.Summary)
	})
	t.Run("while a tool runs, the run ends at once", func(t *testing.T) {
		t.Parallel()
		w, a, r := begin(t, waittest.Limit, "tool_use", endpoint)
		completeAnswer(w)
		w.followUntil(a, r, "answered")
		w.interrupt(a, r)
		output, _ := w.follow(a, r)
		require.Equal(t, "asking\nanswered\ngot TERM\n", output)
	})
	t.Run("an interrupt returns when the turn has ended", func(t *testing.T) {
		t.Parallel()
		waittest.WithGrowingLimit(t, time.Second, func(time.Duration) (inTime bool) {
			w := newClaudePlace(t, local.Role{}, func(c *local.Config) { c.StopGrace = waittest.Limit })
			a := w.provision(configuredAgent(fleet.AgentConfig{Driver: "claude"}))
			w.script("s", interruptedScript)
			r := newRun("go")
			r.FleetEndpoint = endpoint
			require.NoError(t, w.Connect(a).Dispatch(w.ctx, r))
			w.followUntil(a, r, "working")
			begun := time.Now()
			w.interrupt(a, r)
			inTime = time.Since(begun) < time.Second // Interrupt waits at most a second for the end of a turn
			if inTime {
				require.Contains(t, readFile(t, filepath.Join(w.runDir(a, r), "output")), "cancelled")
			}
			_, o := w.follow(a, r)
			require.Equal(t, fleet.TaskStopped, o.Status)
			return inTime
		})
	})
	t.Run("an interrupt waits no longer than the grace", func(t *testing.T) {
		t.Parallel()
		waittest.WithGrowingLimit(t, 400*time.Millisecond, func(grace time.Duration) (inTime bool) {
			w, a, r := begin(t, grace, "tool_use", endpoint)
			w.interrupt(a, r)
			output, o := w.follow(a, r)
			require.Equal(t, fleet.TaskStopped, o.Status)
			require.NotContains(t, output, "answered")
			return output == "asking\ngot TERM\n" // false if the program was killed before it printed this
		})
	})
	t.Run("with Linger, an interrupt waits longer than the grace", func(t *testing.T) {
		t.Parallel()
		const grace = 200 * time.Millisecond
		w, a, r := begin(t, grace, "tool_use", endpoint)
		soft := r
		soft.Linger = waittest.Limit
		w.interrupt(a, soft)
		require.NoError(t, w.Connect(a).Interrupt(w.ctx, soft, false), "a repeated interrupt must be accepted")
		changes, err := shim.Run(w.runDir(a, r)).Watch(w.ctx)
		require.NoError(t, err)
		for timeout := time.After(3 * grace); timeout != nil; {
			select {
			case _, running := <-changes:
				require.True(t, running, "the active request must not be interrupted")
			case <-timeout:
				timeout = nil
			}
		}
		completeAnswer(w)
		output, o := w.follow(a, r)
		require.Equal(t, "asking\nanswered\ngot TERM\n", output)
		require.Equal(t, fleet.TaskStopped, o.Status)
	})
	t.Run("an interrupt without Linger ends the wait", func(t *testing.T) {
		t.Parallel()
		waittest.WithGrowingLimit(t, 200*time.Millisecond, func(grace time.Duration) (inTime bool) {
			w, a, r := begin(t, grace, "tool_use", endpoint)
			soft := r
			soft.Linger = time.Hour
			w.interrupt(a, soft)
			w.interrupt(a, r)
			output, _ := w.follow(a, r)
			require.NotContains(t, output, "answered")
			return output == "asking\ngot TERM\n" // false if the program was killed before it printed this
		})
	})
	t.Run("a kill does not wait", func(t *testing.T) {
		t.Parallel()
		w, a, r := begin(t, waittest.Limit, "tool_use", endpoint)
		w.interrupt(a, r)
		w.kill(a, r)
		_, o := w.follow(a, r)
		require.Equal(t, fleet.TaskStopped, o.Status)
	})
	t.Run("a run without an endpoint of Fleet ends at once", func(t *testing.T) {
		t.Parallel()
		w, a, r := begin(t, waittest.Limit, "tool_use", nil)
		w.interrupt(a, r)
		output, _ := w.follow(a, r)
		require.Equal(t, "asking\ngot TERM\n", output)
	})
}

// TestAgentConfigQuestions checks an agent whose configuration has Ask. It must get the tools that need a permission, and the
// MCP server through which it asks. A driver that does not ask must refuse such a configuration.
func TestAgentConfigQuestions(t *testing.T) {
	t.Parallel()
	w := newClaudePlace(t, local.Role{})
	a := w.provision(configuredAgent(fleet.AgentConfig{Driver: "claude", Allow: []string{"Read"}, Ask: []string{"Bash(git *)", "Edit"}, Deny: []string{"Bash(rm *)"}, AskTimeout: waittest.Limit}))
	w.script("s-1", "", claudeDone)
	_, o := w.follow(a, w.start(a, "go"))
	require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
	argv := strings.Join(w.argv(), " ")
	require.Contains(t, argv, "--tools Read,Bash,Edit --allowedTools Read,mcp__fleet-ask__ask_user --disallowedTools Bash(rm *)")
	require.Contains(t, argv, "--permission-prompt-tool stdio")
	require.JSONEq(t, `{"mcpServers":{"fleet-ask":{"type":"sdk","name":"fleet-ask"}}}`, w.file("mcp.json"))
	require.Contains(t, w.file("initialize"), `"sdkMcpServers":["fleet-ask"]`)
	require.Contains(t, w.file("environment"), "MCP_TOOL_TIMEOUT=660000\n")

	for _, kind := range []string{"shell", "command"} {
		_, err := w.Provision(w.ctx, fleet.Agent{UID: "other", Name: "other", Config: &fleet.AgentConfig{Driver: kind, Command: []string{"true"}, Ask: []string{}}})
		require.ErrorContains(t, err, "does not ask for permissions")
	}
}

// TestDriverConversations checks, for each driver, that Remembers in its description says whether it continues a conversation.
func TestDriverConversations(t *testing.T) {
	t.Parallel()
	p := newPlace(t, t.TempDir(), nil)
	traits := p.Traits()
	require.NoError(t, p.Close())
	for _, kind := range driver.Kinds {
		d, err := driver.New(driver.Options{Kind: kind, Command: []string{"true"}})
		require.NoError(t, err)
		_, converses := d.(driver.ConversationDriver)
		facts, ok := traits.Driver(kind)
		require.True(t, ok, kind)
		require.Equal(t, converses, facts.Remembers, kind)
	}
}

// TestEditPermissions checks that MayEdit does not override the permissions of the agent's role or the tools in its
// configuration.
func TestEditPermissions(t *testing.T) {
	t.Parallel()
	const flag = "--permission-mode acceptEdits"
	for name, tc := range map[string]struct {
		role        local.Role
		agentConfig fleet.AgentConfig
		want        bool
	}{
		"by configuration":                {agentConfig: fleet.AgentConfig{Driver: "claude", MayEdit: true}, want: true},
		"by configuration with a list":    {agentConfig: fleet.AgentConfig{Driver: "claude", MayEdit: true, Allow: []string{"Read"}}},
		"by configuration without edits":  {agentConfig: fleet.AgentConfig{Driver: "claude"}},
		"in a project":                    {agentConfig: fleet.AgentConfig{MayEdit: true}, want: true},
		"in a project with tools":         {role: local.Role{Tools: []string{"Read"}}, agentConfig: fleet.AgentConfig{MayEdit: true}},
		"in a project with allowed tools": {role: local.Role{AllowedTools: []string{"Read"}}, agentConfig: fleet.AgentConfig{MayEdit: true}},
		"in a project with a mode":        {role: local.Role{PermissionMode: "plan"}, agentConfig: fleet.AgentConfig{MayEdit: true}},
		"in a project without MayEdit":    {agentConfig: fleet.AgentConfig{Reports: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newClaudePlace(t, tc.role)
			a := configuredAgent(tc.agentConfig)
			if tc.agentConfig.Driver == "" {
				a.Project, a.Role = "claude", "coder"
			}
			w.provision(a)
			w.script("s-1", "", claudeInit, claudeSays, claudeDone)
			w.runTask(a, "go")
			require.Equal(t, tc.want, strings.Contains(strings.Join(w.argv(), " "), flag), w.argv())
		})
	}
}
