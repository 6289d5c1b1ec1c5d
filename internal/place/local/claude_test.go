package local_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/sandbox"
)

// fakeClaude is a script that replaces Claude Code. It records its arguments, environment and first messages in files in HOME, and
// executes the file script there. If it receives an interrupt, it sends itself SIGTERM.
const fakeClaude = `#!/usr/bin/env bash
{ printf '%s\0' "$@"; } >"$HOME/argv"
env >"$HOME/environment"
read -r initialize
read -r prompt
printf %s "$initialize" >"$HOME/initialize"
printf %s "$prompt" >"$HOME/prompt"
exec 4<&0
{ while read -r line; do case "$line" in *'"interrupt"'*) kill -TERM $$ ;; esac; done } <&4 4<&- >/dev/null 2>&1 &
exec 4<&-
for ((i = 1; i <= $#; i++)); do
  if [ "${!i}" = --mcp-config ]; then j=$((i + 1)); cp "${!j}" "$HOME/mcp.json"; stat -c %a "${!j}" >"$HOME/mode"; fi
done
source "$HOME/script"
`

const (
	claudeInit         = `{"type":"system","subtype":"init","cwd":"/w","session_id":"SESSION","tools":["Bash"],"mcp_servers":[],"model":"opus"}`
	claudeSays         = `{"type":"assistant","message":{"id":"m1","role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"I will look."},{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls\n  -l","description":"List"}}]},"parent_tool_use_id":null,"session_id":"SESSION"}`
	claudeToolResult   = `{"type":"user","message":{"role":"user","content":[{"tool_use_id":"t1","type":"tool_result","content":"file"}]},"session_id":"SESSION"}`
	claudeSubagentSays = `{"type":"assistant","message":{"content":[{"type":"text","text":"of a subagent"},{"type":"tool_use","name":"mcp__tickets__search","input":{"query":"open"}}]},"parent_tool_use_id":"t0","session_id":"SESSION"}`
	claudeDone         = `{"type":"result","subtype":"success","is_error":false,"num_turns":3,"result":"All is well.","total_cost_usd":0.0421,"session_id":"SESSION"}`
)

// claudePlace is a place with the project "claude", whose program is fakeClaude.
type claudePlace struct {
	*testPlace
	homeDir string // HOME of the server and of its agents
}

// newClaudeAgent returns a place with the fake Claude Code, and an agent that uses it.
func newClaudeAgent(t *testing.T) (*claudePlace, fleet.Agent) {
	t.Helper()
	w := newClaudePlace(t, local.Role{})
	return w, w.provisionIn("claude")
}

// newClaudePlace returns a place whose agents have the role. It calls changes to change the configuration.
func newClaudePlace(t *testing.T, role local.Role, changes ...func(*local.Config)) *claudePlace {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "claude")
	require.NoError(t, os.WriteFile(program, []byte(fakeClaude), 0o700))
	role.Name = "coder"
	w := newTestPlace(t, func(c *local.Config) {
		c.Environ = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=" + dir, "ANTHROPIC_API_KEY=key", "OPENAI_API_KEY=other", "FLEET_TOKEN=secret"}
		c.Projects = []local.Project{{Name: "claude", Driver: "claude", Roles: []local.Role{role}}}
		c.Sandbox = sandbox.None // the fake must read its script from the user's home
		for _, change := range changes {
			change(c)
		}
	})
	return &claudePlace{testPlace: w, homeDir: dir}
}

// script makes the fake print the lines and then run the shell commands in then. In the lines, session replaces the text
// SESSION.
func (c *claudePlace) script(session, then string, lines ...string) {
	c.t.Helper()
	s := "cat <<'END'\n" + strings.ReplaceAll(strings.Join(lines, "\n"), "SESSION", session) + "\nEND\n" + then + "\n"
	require.NoError(c.t, os.WriteFile(filepath.Join(c.homeDir, "script"), []byte(s), 0o600))
}

// file returns the content of a file that the fake has written.
func (c *claudePlace) file(name string) string {
	c.t.Helper()
	b, err := os.ReadFile(filepath.Join(c.homeDir, name))
	require.NoError(c.t, err)
	return string(b)
}

// prompt returns the text of the first message that the fake has received.
func (c *claudePlace) prompt() string {
	c.t.Helper()
	var m struct {
		Message struct{ Content []struct{ Text string } }
	}
	require.NoError(c.t, json.Unmarshal([]byte(c.file("prompt")), &m))
	require.Len(c.t, m.Message.Content, 1)
	return m.Message.Content[0].Text
}

func (c *claudePlace) argv() []string {
	return strings.Split(strings.TrimSuffix(c.file("argv"), "\x00"), "\x00")
}

// TestClaude checks the arguments, messages and environment that Claude Code gets, and how its output is reported.
func TestClaude(t *testing.T) {
	t.Parallel()
	w := newClaudePlace(t, local.Role{
		Prompt: "You write code.", Model: "opus", RoleOptions: driver.RoleOptions{Effort: "high", MaxTurns: 20, MaxCostUSD: 2.5}, AllowedTools: []string{"Bash(git *)", "Edit"}, DisallowedTools: []string{"WebFetch"},
		PermissionMode: "acceptEdits", MCPServers: map[string]driver.MCPServer{"tickets": {Type: "http", URL: "https://example.com", Headers: map[string]string{"Authorization": "Bearer s3cret"}}},
	})
	a := w.provisionIn("claude")
	w.script("s-1", "echo warning: old node >&2", claudeInit, claudeSays, claudeToolResult, claudeSubagentSays, `{"type":"stream_event"}`, "not json at all", `{"type":`, `{"kind":"new"}`, `[1]`, claudeDone)
	r := w.start(a, "--help me")
	output, o := w.follow(a, r)
	require.Equal(t, "I will look.\n<Bash: ls -l>\n<tickets.search: open>\nnot json at all\n{\"type\":\n[1]\n", output)
	require.Equal(t, fleet.Outcome{Status: fleet.TaskCompleted, Summary: "All is well.", Payload: []byte("All is well."), EndedAt: o.EndedAt, CostUSD: 0.0421, Turns: 3, HasConversation: true, SessionID: "s-1", ExitCode: new(int), Usage: fleet.Usage{Model: "opus", ToolCalls: 2}}, o)

	require.Equal(t, []string{
		"-p", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json", "--replay-user-messages", "--include-partial-messages", "--include-hook-events", "--forward-subagent-text", "--setting-sources", "project",
		"--model", "opus", "--effort", "high", "--max-turns", "20", "--max-budget-usd", "2.5", "--allowedTools", "Bash(git *),Edit", "--disallowedTools", "WebFetch", "--permission-mode", "acceptEdits",
		"--mcp-config", w.runDir(a, r, "mcp.json"), "--strict-mcp-config",
	}, w.argv())
	require.Equal(t, "--help me", w.prompt())
	require.Contains(t, w.file("initialize"), `"appendSystemPrompt":"You write code.\n\nYou are the agent \"papi\". What you are there for:\n\nKeep the tests green."`)
	require.JSONEq(t, `{"mcpServers":{"tickets":{"type":"http","url":"https://example.com","headers":{"Authorization":"Bearer s3cret"}}}}`, w.file("mcp.json"))
	require.Equal(t, "600\n", w.file("mode"))
	require.NoFileExists(t, w.runDir(a, r, "mcp.json"), "its secrets must be removed with the run")
	env := w.file("environment")
	require.Contains(t, env, "ANTHROPIC_API_KEY=key\n")
	require.NotContains(t, env, "OPENAI_API_KEY")
	require.NotContains(t, env, "FLEET_TOKEN")

	// Following from any cursor returns only the remaining output, even if the cursor is between two parts of one event.
	outputs, _ := w.outputs(a, r, "")
	for i, out := range outputs {
		rest, same := w.outputs(a, r, out.Cursor)
		require.Equal(t, outputs[i+1:], append([]fleet.Output{}, rest...), out.Cursor)
		require.Equal(t, o, same)
	}
}

// TestClaudeResumes checks that a task continues the agent's last conversation, and that a task after one whose conversation was lost
// begins a new one.
func TestClaudeResumes(t *testing.T) {
	t.Parallel()
	w := newClaudePlace(t, local.Role{})
	a, other := w.provisionIn("claude"), w.provisionIn("claude")
	resumedSession := func() string {
		argv := w.argv()
		for i, arg := range argv {
			if arg == "--resume" {
				return argv[i+1]
			}
		}
		return ""
	}
	w.script("s-1", "", claudeInit, claudeDone)
	w.runTask(a, "one")
	require.Empty(t, resumedSession())
	w.script("s-2", "sleep 3600", claudeInit, claudeSays)
	r := w.startUntil(a, "two", "I will look.")
	require.Equal(t, "s-1", resumedSession())
	w.interrupt(a, r)
	output, o := w.follow(a, r)
	require.Equal(t, "I will look.\n<Bash: ls -l>\n", output)
	require.Equal(t, fleet.TaskStopped, o.Status)
	require.Equal(t, "I will look.", o.Summary)

	w.script("s-3", "", claudeInit, claudeDone)
	w.runTask(other, "one")
	require.Empty(t, resumedSession(), "an agent must not continue the conversation of another agent")
	w.runTask(a, "three")
	require.Equal(t, "s-2", resumedSession(), "the next run must continue the conversation of a stopped run")

	w.script("s-4", "echo 'No conversation found with session ID: s-3' >&2; exit 1")
	_, o = w.runTask(a, "four")
	require.Equal(t, "s-3", resumedSession())
	require.Equal(t, fleet.TaskFailed, o.Status)
	require.Equal(t, "exit code 1: No conversation found with session ID: s-3; the agent's next task begins a new conversation", o.Reason)
	w.script("s-5", "", claudeInit, claudeDone)
	w.runTask(a, "five")
	require.Empty(t, resumedSession())
}

// TestClaudeRoleChange checks that the prompt tells an agent about its new role. A conversation of Claude Code keeps the system
// prompt with which it started.
func TestClaudeRoleChange(t *testing.T) {
	t.Parallel()
	w, a := newClaudeAgent(t)
	w.script("s-1", "", claudeInit, claudeSays, claudeDone)
	w.runTask(a, "one")
	require.Equal(t, "one", w.prompt())
	w.runTask(a, "two")
	require.Equal(t, "two", w.prompt())
	a.Spec = "Keep the tests red."
	w.script("s-1", "exit 1", claudeInit)
	w.runTask(a, "three")
	require.Contains(t, w.prompt(), "has changed")
	w.script("s-1", "", claudeInit, claudeSays, claudeDone)
	w.runTask(a, "four")
	require.Contains(t, w.prompt(), "has changed", "the prompt must repeat the new role, because the model has not received it yet")
	require.Contains(t, w.prompt(), "Keep the tests red.")
	require.Contains(t, w.prompt(), "Your task now:\n\nfour")
	w.runTask(a, "five")
	require.Equal(t, "five", w.prompt())
}

// TestClaudeCost checks that the cost of a task is the sum of the costs that each of its results adds. It does not include the cost
// of the conversation before the task.
func TestClaudeCost(t *testing.T) {
	t.Parallel()
	w := newClaudePlace(t, local.Role{})
	result := func(total, since string) string {
		return `{"type":"result","subtype":"success","num_turns":2,"result":"` + total + `","total_cost_usd":` + total + `,"session_id":"SESSION"` + since + `}`
	}
	w.script("s-1", "", claudeInit,
		result("0.5", `,"model_usage_since_last_result":{"opus":{"costUSD":0.25},"haiku":{"costUSD":0.125}}`),
		result("0.75", `,"model_usage_since_last_result":{"opus":{"costUSD":0.25}}`), result("0.75", `,"model_usage_since_last_result":{}`))
	_, o := w.runTask(w.provisionIn("claude"), "task")
	require.Equal(t, fleet.Outcome{Status: fleet.TaskCompleted, Summary: "0.75", Payload: []byte("0.75"), EndedAt: o.EndedAt, CostUSD: 0.625, Turns: 6, HasConversation: true, SessionID: "s-1", ExitCode: new(int), Usage: fleet.Usage{Model: "opus"}}, o)
}

func TestClaudeOutcomes(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 1500)
	for _, tc := range []struct {
		name, then string
		lines      []string
		status     fleet.TaskStatus
		reason     string
		summary    string
	}{
		{"an error", "exit 1", []string{claudeInit, `{"type":"result","subtype":"success","is_error":true,"result":"Invalid API key"}`}, fleet.TaskFailed, "Invalid API key", ""},
		{"errors", "exit 1", []string{claudeSays, `{"type":"result","subtype":"error_during_execution","errors":["one","two"]}`}, fleet.TaskFailed, "one; two", "I will look."},
		{"too many turns", "", []string{`{"type":"result","subtype":"error_max_turns","num_turns":9}`}, fleet.TaskFailed, "it reached its limit of turns, after 9 turns", ""},
		{"too many turns, with a reason", "", []string{`{"type":"result","subtype":"error_max_turns","num_turns":3,"errors":["Reached maximum number of turns (2)"]}`}, fleet.TaskFailed, "Reached maximum number of turns (2)", ""},
		{"too expensive", "", []string{`{"type":"result","subtype":"error_max_budget_usd","total_cost_usd":0.15,"errors":["Reached maximum budget ($0.10)"]}`}, fleet.TaskFailed, "Reached maximum budget ($0.10)", ""},
		{"too expensive, without a reason", "", []string{`{"type":"result","subtype":"error_max_budget_usd","total_cost_usd":0.15}`}, fleet.TaskFailed, "it reached its limit of cost; it had spent $0.15", ""},
		{"an error without a reason", "", []string{`{"type":"result","subtype":"error_new"}`}, fleet.TaskFailed, "claude reported a failure without a reason (error_new)", ""},
		{"no result", "", []string{claudeInit, claudeSays}, fleet.TaskFailed, "claude ended without a result; Fleet was tested with claude 2.1.332", "I will look."},
		{"no output", "", nil, fleet.TaskFailed, "this version of claude writes no output that Fleet understands; Fleet was tested with claude 2.1.332", ""},
		{"unknown events", "", []string{`{"event":"begin"}`, `{"event":"end"}`}, fleet.TaskFailed, `this version of claude writes no output that Fleet understands; its first line is {"event":"begin"}; Fleet was tested with claude 2.1.332`, ""},
		{"a crash", "echo 'at x.js:1' >&2; echo 'TypeError: no' >&2; exit 7", []string{claudeInit}, fleet.TaskFailed, "exit code 7: TypeError: no", ""},
		{"a crash reported on stdout", "exit 7", []string{"error: unknown option"}, fleet.TaskFailed, "exit code 7: error: unknown option; Fleet was tested with claude 2.1.332", ""},
		{"killed", "kill -KILL $$", []string{claudeInit}, fleet.TaskFailed, "ended by signal KILL", ""},
		{"a long report", "", []string{strings.Replace(claudeDone, "All is well.", long, 1)}, fleet.TaskCompleted, "", strings.TrimSpace(long[:3999]) + "…"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newClaudePlace(t, local.Role{})
			w.script("s-1", tc.then, tc.lines...)
			_, o := w.runTask(w.provisionIn("claude"), "task")
			require.Equal(t, tc.status, o.Status)
			require.Equal(t, tc.reason, o.Reason)
			require.Equal(t, tc.summary, o.Summary)
			if tc.name == "a long report" {
				require.Equal(t, long, string(o.Payload))
			}
		})
	}
}

// TestClaudeLongTexts checks prompts and specifications that would be too long for a command-line argument.
func TestClaudeLongTexts(t *testing.T) {
	t.Parallel()
	w := newClaudePlace(t, local.Role{Tools: []string{}})
	a := w.provisionIn("claude")
	w.script("s-1", "", claudeDone)
	long := strings.Repeat("long task ", 100_000)
	w.mustRun(a, long)
	require.Equal(t, long, w.prompt())
	require.Contains(t, w.file("argv"), "--tools\x00\x00", "an empty list of tools must mean no tools")

	a.Spec = strings.Repeat("long spec ", 20_000)
	w.mustRun(a, "short")
	require.Contains(t, w.file("initialize"), "long spec")
	require.Contains(t, w.prompt(), "has changed")
}

// TestClaudeLimit checks that Fleet finds the result after output that is too long to be kept.
func TestClaudeLimit(t *testing.T) {
	t.Parallel()
	w := newClaudePlace(t, local.Role{})
	big, err := json.Marshal(map[string]any{"type": "user", "message": strings.Repeat("x", 1000)})
	require.NoError(t, err)
	w.script("s-1", "for i in $(seq 30000); do echo '"+string(big)+"'; done; echo '"+claudeDone+"'", claudeInit)
	_, o := w.runTask(w.provisionIn("claude"), "task")
	require.Equal(t, "All is well.", o.Summary, "%+v", o)
}
