package npm

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	fleetv1 "fleet/gen/fleet/v1"
)

// boss is an instance of Claude Code that runs tasks of a fleet over MCP, with the fleet's server and a model for all of its agents.
type boss struct {
	*server
	*model
	home        home
	path        string   // of Claude Code
	port        string   // the port of the server's HTTP address; a restarted server keeps it, because sessions of Claude Code are bound to it
	env         []string // of Claude Code
	*tmuxWindow          // the terminal in which Claude Code runs; nil before it is opened
}

func newBoss(t *testing.T) *boss {
	t.Helper()
	return newBossOn(t, "", "Write")
}

// newBossOn is newBoss with a repository for the project code, and with rules for the tools that its agents may use. The agents of the pool web are
// agents of this project.
func newBossOn(t *testing.T, repository string, allow ...string) *boss {
	t.Helper()
	b := &boss{path: installClaude(t), model: newModel(t), home: newHome(t)}
	b.home.writeYAML(t, "fleet.yaml", map[string]any{
		"local": map[string]any{"projects": []any{
			map[string]any{"name": "shell", "driver": "shell"},
			map[string]any{"name": "code", "driver": "claude", "command": []string{b.path}, "env": b.model.env(), "repository": repository, "roles": []any{
				role{"name": "coder", "model": pricedModel, "default": true, "permissions": map[string]any{"allow": allow}},
			}},
		}},
		"pools": []any{map[string]any{"name": "web", "project": "code", "max_agents": 5}},
	})
	_, b.port, _ = net.SplitHostPort(freeAddress(t))
	b.serve(t)

	require.NoError(t, os.Mkdir(b.home.path("boss"), 0o700))
	require.NoError(t, os.Mkdir(b.home.path("go"), 0o700))
	b.home.writeJSON(t, ".claude.json", map[string]any{
		"hasCompletedOnboarding": true, "theme": "dark", "customApiKeyResponses": map[string]any{"approved": []string{"sk-stub"}},
		"projects": map[string]any{b.home.path("boss"): map[string]any{"hasTrustDialogAccepted": true}},
	})
	b.home.writeMCPConfig(t, "fleet", map[string]any{"type": "http", "url": "http://127.0.0.1:" + b.port + "/mcp"})
	b.env = b.home.env(b.environ()...)
	return b
}

// serve starts the server, or restarts it after it was killed.
func (b *boss) serve(t *testing.T) {
	t.Helper()
	b.server = serve(t, b.home, "--config", b.home.path("fleet.yaml"), "--http", "127.0.0.1:"+b.port)
}

// restart kills the server and starts it again.
func (b *boss) restart(t *testing.T) {
	t.Helper()
	b.kill(t)
	b.serve(t)
}

// argv returns the command line of Claude Code with more arguments.
func (b *boss) argv(more ...string) []string {
	return append([]string{b.path, "--mcp-config", b.home.path("mcp.json"), "--strict-mcp-config", "--allowedTools", "mcp__fleet"}, more...)
}

// taskCall returns a call that runs a task. The task ends when release is called, and its result contains the name.
func (b *boss) taskCall(name string) map[string]any {
	gate := b.home.path("go", name)
	return map[string]any{"name": "mcp__fleet__run_task", "input": map[string]any{
		"project": "shell", "new_agent": true, "request_id": name,
		"task_description": fmt.Sprintf(`until [ -e %s ]; do sleep 0.05; done; echo "result of $((40+2)) %s"`, gate, name),
	}}
}

// askingCall returns a call that runs a task whose agent asks for a permission.
func askingCall() map[string]any {
	return map[string]any{"name": "mcp__fleet__run_task", "input": map[string]any{
		"project": "code", "new_agent": true, "request_id": "asker", "wait_seconds": 5,
		"task_description": "Touch a file.\nmodel: tool Bash {\"command\":\"touch touched\"}\nmodel: say Touched 42",
	}}
}

// release lets the task end.
func (b *boss) release(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, os.WriteFile(b.home.path("go", name), nil, 0o600))
}

// prompt returns a prompt for which the model makes all calls in its first answer.
func (b *boss) prompt(t *testing.T, words string, calls ...map[string]any) string {
	t.Helper()
	list, err := json.Marshal(calls)
	require.NoError(t, err)
	return words + "\nmodel: tools " + string(list) + "\nmodel: say All tasks run."
}

// turns returns the requests whose conversation contains the words, oldest first. It leaves out requests without tools, such as those for the title.
func (b *boss) turns(words string) []request {
	return slices.DeleteFunc(b.requestsWith(words), func(q request) bool { return len(q.toolNames()) == 0 })
}

// wakePrefix precedes a result with which Claude Code wakes its model.
const wakePrefix = "<result>\n"

// waitForResult waits until Claude Code has woken its model with the result.
func (b *boss) waitForResult(t *testing.T, words, text string) {
	t.Helper()
	require.Eventually(t, func() bool {
		all := b.turns(words)
		return len(all) > 0 && strings.Contains(all[len(all)-1].conversationText(), wakePrefix+text)
	}, defaultTimeout, 50*time.Millisecond, "the model was not told %q: %s", text, lazyString(b.screen))
}

func (b *boss) tasks(t *testing.T) []*fleetv1.Task {
	t.Helper()
	r, err := b.api.ListTasks(t.Context(), &fleetv1.ListTasksRequest{})
	require.NoError(t, err)
	return r.GetTasks()
}

// choose answers the form of a question with the last of the given options, which must be the first options of the field, in
// order.
func (b *boss) choose(t *testing.T, field string, options ...string) {
	t.Helper()
	b.waitForText(t, "requests your input")
	b.pressKeys(t, "Right")
	for i, option := range options {
		if i > 0 {
			b.pressKeys(t, "Down")
		}
		b.waitForText(t, "❯ ◯ "+option)
	}
	b.pressKeys(t, "Enter")
	b.waitForText(t, "✔ "+field+": "+options[len(options)-1])
	b.pressKeys(t, "Down")
	b.waitForText(t, "❯ Accept")
	require.Eventually(t, func() bool { // a form ignores keys for a moment, so that nobody answers it by accident
		b.pressKeys(t, "Enter")
		return !strings.Contains(b.screen(), "requests your input")
	}, defaultTimeout, time.Second, "%s", lazyString(b.screen))
}

// allowTool answers the form for a permission.
func (b *boss) allowTool(t *testing.T) {
	t.Helper()
	b.choose(t, "Decision", "allow")
}

// TestClaudeBoss lets Claude Code run five tasks with one prompt, in a terminal. Claude Code makes no further call, because each result wakes it. Meanwhile
// the server is killed three times, an agent asks a question, and the session is closed and resumed.
func TestClaudeBoss(t *testing.T) {
	b := newBoss(t)
	const words, session = "Run five tasks.", "7c9e6679-7425-40de-944b-e07fc1f90ae7"
	b.tmuxWindow = openTmux(t, b.env, b.home.path("boss"), b.argv("--session-id", session, "--", b.prompt(t, words, b.taskCall("a"), b.taskCall("b"), b.taskCall("c"), b.taskCall("d"), askingCall()))...)
	require.Eventually(t, func() bool { return len(b.tasks(t)) == 5 }, defaultTimeout, 50*time.Millisecond, "%s", lazyString(b.screen))

	// The question of the agent shows in the terminal, and the answer reaches the agent once.
	b.waitForText(t, "requests your input")
	b.waitForText(t, "(Touch a file.)") // the form names the task
	b.restart(t)                        // while the form is open
	b.allowTool(t)
	b.waitForResult(t, words, "Touched 42")
	b.requireAnswered(t)

	// The server is killed before a result, and the first result arrives.
	b.restart(t)
	b.release(t, "a")
	b.waitForResult(t, words, "result of 42 a")

	// The session is closed. A task ends, the server is killed, and the resumed session gets this result and the others.
	b.pressKeys(t, "/exit", "Enter")
	b.waitForEnd(t)
	b.release(t, "b")
	b.waitForSummary(t, "result of 42 b")
	b.restart(t)
	b.tmuxWindow = openTmux(t, b.env, b.home.path("boss"), b.argv("--resume", session)...)
	b.waitForResult(t, words, "result of 42 b")
	b.release(t, "c")
	b.release(t, "d")
	b.waitForResult(t, words, "result of 42 c")
	b.waitForResult(t, words, "result of 42 d")
	b.pressKeys(t, "/exit", "Enter")
	b.waitForEnd(t)

	b.requireFewTurns(t, words)
}

// TestClaudeBossDetached does the same as TestClaudeBoss with a session in the background (claude --bg). A person attaches to
// it only to answer the question.
func TestClaudeBossDetached(t *testing.T) {
	b := newBoss(t)
	const words = "Run five tasks."
	t.Cleanup(func() { // the session has a process that starts further ones
		require.Eventually(t, func() bool {
			left := slices.DeleteFunc(b.home.processes(), func(p process) bool { return p.pid == b.cmd.Process.Pid })
			for _, p := range left {
				_ = syscall.Kill(p.pid, syscall.SIGKILL)
			}
			return len(left) == 0
		}, defaultTimeout, 50*time.Millisecond)
	})
	id := b.background(t, "--", b.prompt(t, words, b.taskCall("a"), b.taskCall("b"), b.taskCall("c"), b.taskCall("d"), askingCall()))
	require.Eventually(t, func() bool { return len(b.tasks(t)) == 5 }, defaultTimeout, 50*time.Millisecond)

	// The question waits for somebody who attaches, and the server is killed while the form is open.
	b.tmuxWindow = openTmux(t, b.env, b.home.path("boss"), b.path, "attach", id)
	b.waitForText(t, "requests your input")
	b.restart(t)
	b.allowTool(t)
	b.waitForResult(t, words, "Touched 42")
	b.pressKeys(t, "C-z")
	b.waitForEnd(t)
	b.requireAnswered(t)

	// Nobody is attached, and the server is killed before a result.
	b.restart(t)
	b.release(t, "a")
	b.waitForResult(t, words, "result of 42 a")

	// The session is stopped. A task ends, the server is killed, and attaching resumes the session, which gets this result. It gets the others
	// when nobody is attached any more.
	stdout, stderr, code := run(t, b.env, b.home.path("boss"), b.path, "stop", id)
	require.Zero(t, code, stdout+stderr)
	b.release(t, "b")
	b.waitForSummary(t, "result of 42 b")
	b.restart(t)
	b.tmuxWindow = openTmux(t, b.env, b.home.path("boss"), b.path, "attach", id)
	b.waitForResult(t, words, "result of 42 b")
	b.pressKeys(t, "C-z")
	b.waitForEnd(t)
	b.release(t, "c")
	b.release(t, "d")
	b.waitForResult(t, words, "result of 42 c")
	b.waitForResult(t, words, "result of 42 d")
	b.requireFewTurns(t, words)
}

// background starts a session in the background and returns its short id.
func (b *boss) background(t *testing.T, more ...string) string {
	t.Helper()
	stdout, stderr, code := run(t, b.env, b.home.path("boss"), b.argv(append([]string{"--bg"}, more...)...)...)
	require.Zero(t, code, stdout+stderr)
	found := regexp.MustCompile(`claude attach (\S+)`).FindStringSubmatch(stdout)
	require.NotNil(t, found, stdout+stderr)
	return found[1]
}

// waitForSummary waits until a task has completed with the summary.
func (b *boss) waitForSummary(t *testing.T, summary string) {
	t.Helper()
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(b.tasks(t), func(x *fleetv1.Task) bool { return x.GetSummary() == summary })
	}, defaultTimeout, 50*time.Millisecond)
}

// requireAnswered fails the test unless the question of the asking task was answered once, with allow, and its agent received the answer once.
func (b *boss) requireAnswered(t *testing.T) {
	t.Helper()
	r, err := b.api.ListQuestions(t.Context(), &fleetv1.ListQuestionsRequest{IncludeAnswered: true})
	require.NoError(t, err)
	require.Len(t, r.GetQuestions(), 1)
	require.Equal(t, []string{"allow", "local"}, []string{r.GetQuestions()[0].GetAnswer(), r.GetQuestions()[0].GetAnsweredBy()})
	requests := b.requestsWith("Touch a file.\nmodel: tool Bash") // this matches only the agent's prompt, because the boss's prompt contains the text as JSON
	require.Len(t, requests[len(requests)-1].results(), 1)
}

// requireFewTurns fails the test unless each of the five results has arrived once, in fewer than two turns of the model per task, and the model
// made no other call.
func (b *boss) requireFewTurns(t *testing.T, words string) {
	t.Helper()
	require.Len(t, b.tasks(t), 5, "no call may be repeated")
	turns := b.turns(words)
	require.Less(t, len(turns), 10, "the model must need fewer than two turns per task")
	last := turns[len(turns)-1]
	for _, result := range []string{"result of 42 a", "Touched 42", "result of 42 b", "result of 42 c", "result of 42 d"} {
		require.Equal(t, 1, strings.Count(last.conversationText(), wakePrefix+result+"\n"), "%s must arrive once", result)
	}
	require.Equal(t, slices.Repeat([]string{"mcp__fleet__run_task"}, 5), last.calledTools())
	t.Logf("five tasks, %d turns of the model", len(turns))
}

// TestClaudeBossPrints checks that `claude -p`, which has no person, neither answers the question of an agent nor denies it.
func TestClaudeBossPrints(t *testing.T) {
	b := newBoss(t)
	// This call starts the task, whose agent asks its question. The call of Claude Code has the same request id, so it waits for the same task.
	var asking fleetv1.RunTaskRequest
	require.NoError(t, protojson.Unmarshal([]byte(asJSON(askingCall()["input"])), &asking))
	asking.WaitSeconds = new(int32(0))
	started, err := b.api.RunTask(t.Context(), &asking)
	require.NoError(t, err)
	for err == nil {
		_, err = started.Recv()
	}
	require.ErrorIs(t, err, io.EOF)
	require.Eventually(t, func() bool {
		r, err := b.api.ListQuestions(t.Context(), &fleetv1.ListQuestionsRequest{})
		return err == nil && len(r.GetQuestions()) == 1
	}, defaultTimeout, 50*time.Millisecond)
	stdout, stderr, code := run(t, b.env, b.home.path("boss"), b.argv("-p", "--", b.prompt(t, "Run a task.", askingCall()))...)
	require.Zero(t, code, stdout+stderr)
	turns := b.turns("Run a task.")
	require.Contains(t, turns[len(turns)-1].conversationText(), "The task is running and goes on")
	r, err := b.api.ListQuestions(t.Context(), &fleetv1.ListQuestionsRequest{IncludeAnswered: true})
	require.NoError(t, err)
	require.Len(t, r.GetQuestions(), 1)
	require.Equal(t, fleetv1.Question_waiting, r.GetQuestions()[0].GetStatus())
	_, err = b.api.StopTask(t.Context(), &fleetv1.StopTaskRequest{TaskId: r.GetQuestions()[0].GetTaskId()})
	require.NoError(t, err)
}

// TestClaudeBossOverStdio makes Claude Code start a server itself, run a task with it, and answer the question of the task's
// agent.
func TestClaudeBossOverStdio(t *testing.T) {
	b := newBoss(t)
	b.home.writeMCPConfig(t, "fleet", map[string]any{"command": program(t), "args": []string{"mcp", "--server", b.grpc}})
	const words = "Run two tasks."
	b.tmuxWindow = openTmux(t, b.env, b.home.path("boss"), b.argv("--", b.prompt(t, words, b.taskCall("a"), askingCall()))...)
	b.allowTool(t)
	b.waitForResult(t, words, "Touched 42")
	b.release(t, "a")
	b.waitForResult(t, words, "result of 42 a")
	b.pressKeys(t, "/exit", "Enter")
	b.waitForEnd(t)
	require.Len(t, b.tasks(t), 2)
}
