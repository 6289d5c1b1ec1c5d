package local_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
	"fleet/internal/runner/driver"
	"fleet/internal/waittest"
)

// acpProjects returns a function that adds projects for the scripted ACP program to a configuration, one for each variant of
// the program. Each project has the name of its variant.
func acpProjects(t *testing.T, roles ...local.Role) func(*local.Config) {
	t.Helper()
	return func(c *local.Config) {
		for _, variant := range []string{"plain", "load", "v2", "deaf"} {
			c.Projects = append(c.Projects, local.Project{
				Name: variant, Driver: "acp", Command: []string{testBinary(t), "peer", variant}, Roles: roles,
			})
		}
	}
}

// TestACP checks outputs, denied tools, costs and failures of tasks, and that a session continues in the next task.
func TestACP(t *testing.T) {
	t.Parallel()
	w := newTestPlace(t, acpProjects(t, local.Role{Name: "coder", Prompt: "You write code.", AllowedTools: []string{"Bash(ls *)"}}))
	a := w.provisionIn("load")
	output, o := w.runTask(a, "say Let me see.\ntool t1 execute go test\ndone t1 ok\nask t2 execute ls -l\nask t3 execute rm -rf x\ncost 0.25\nsay All well.")
	require.Equal(t, "Let me see.\n<execute: go test>\n<terminal: ls -l>\nselected yes\n<terminal: rm -rf x>\n"+
		"<denied: terminal: rm -rf x: no rule allows it>\nselected no\nAll well.\n", output)
	require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
	require.Equal(t, "selected no\nAll well.", o.Summary)
	require.Equal(t, 0, *o.ExitCode)
	require.InDelta(t, 0.25, o.CostUSD, 1e-9)
	require.Equal(t, fleet.Usage{InputTokens: 15, OutputTokens: 2, ToolCalls: 3}, o.Usage)
	require.Equal(t, 1, o.Turns)

	// The next task continues the session and reports only its own cost.
	output, o = w.runTask(a, "say Go on.\ncost 0.75")
	require.Equal(t, "Go on.\n", output)
	require.InDelta(t, 0.5, o.CostUSD, 1e-9)

	// A lost session is reported, and the agent receives its instructions again.
	require.NoError(t, os.WriteFile(w.home(a, "session"), []byte("lost 0 0.75"), 0o600))
	output, o = w.runTask(a, "say Anew.\ncost 0.1")
	require.Equal(t, "<a new conversation starts: no such session>\nAnew.\n", output)
	require.InDelta(t, 0.1, o.CostUSD, 1e-9)

	for prompt, reason := range map[string]string{
		"say x\nfail overloaded": "the prompt failed: overloaded",
		"die":                    "ended by itself (exit status 3) before it had answered",
		"stop refusal":           "the model refused the task",
	} {
		_, o = w.runTask(a, prompt)
		require.Equal(t, fleet.TaskFailed, o.Status)
		require.Contains(t, o.Reason, reason)
	}
	_, o = w.runTask(w.provisionIn("v2"), "say x")
	require.Contains(t, o.Reason, "speaks version 2 of the Agent Client Protocol, but Fleet speaks version 1")
}

// TestACPAgentConfig checks that an agent without a project may use only the tools that its configuration allows.
func TestACPAgentConfig(t *testing.T) {
	t.Parallel()
	w := newTestPlace(t, nil)
	command := []string{testBinary(t), "peer", "plain"}
	script := "ask t1 execute ls -l\nask t2 execute ls secret\nask t3 execute make\nask t4 edit a.go"
	for want, agentConfig := range map[string]fleet.AgentConfig{
		"yes no no no":  {Allow: []string{"Bash(ls *)"}, Deny: []string{"Bash(ls secret*)"}},
		"no no no no":   {Allow: []string{}},
		"no no yes no":  {Allow: []string{"Bash(make)"}},
		"yes yes no no": {Allow: []string{"Bash(ls *)"}},
	} {
		agentConfig.Driver, agentConfig.Command = "acp", command
		output, o := w.runTask(w.provision(configuredAgent(agentConfig)), script)
		require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
		var answers []string
		for line := range strings.Lines(output) {
			if answer, ok := strings.CutPrefix(line, "selected "); ok {
				answers = append(answers, strings.TrimSpace(answer))
			}
		}
		require.Equal(t, want, strings.Join(answers, " "), output)
	}
}

// TestACPMessages sends a message twice during a turn. It must be delivered once, as another turn.
func TestACPMessages(t *testing.T) {
	t.Parallel()
	w := newTestPlace(t, acpProjects(t))
	// A message that arrives after the end of the turn is refused. The test cannot observe when a message arrives, so it waits.
	waittest.WithGrowingLimit(t, 100*time.Millisecond, func(pause time.Duration) (inTime bool) {
		a := w.provisionIn("plain")
		r := w.startUntil(a, "say First.\npause\nuntil sent", "First.")
		sent := make(chan error, 2)
		for range 2 { // the second message has the same id and must not be delivered again
			go func() { sent <- w.Connect(a).Send(w.ctx, r, "m1", "say Second,\nsay  on two lines.") }()
		}
		time.Sleep(pause)
		require.NoError(t, os.WriteFile(filepath.Join(w.home(a, "work"), "sent"), nil, 0o600))
		output, o := w.follow(a, r)
		if errors.Join(<-sent, <-sent) != nil {
			return false
		}
		require.Equal(t, "First.\nSecond, on two lines.\n", output)
		require.Equal(t, 2, o.Turns)
		require.Equal(t, fleet.ReasonNoRunningTask, fleet.ReasonOf(w.Connect(a).Send(w.ctx, r, "m2", "late")))
		return true
	})
}

// TestACPStop interrupts runs. The variant deaf ignores the interrupt, and must be killed. No process may be left.
func TestACPStop(t *testing.T) {
	t.Parallel()
	w := newTestPlace(t, func(c *local.Config) {
		acpProjects(t)(c)
		c.StopGrace = 2 * time.Second
	})
	for _, variant := range []string{"plain", "deaf"} {
		a := w.provisionIn(variant)
		r := w.startUntil(a, "say Working.\npause\nhang", "Working.")
		w.interrupt(a, r)
		if variant == "deaf" {
			w.kill(a, r)
		}
		_, o := w.follow(a, r)
		require.Equal(t, fleet.TaskStopped, o.Status)
		require.Empty(t, runProcessesIn(t, w.home(a)), "no process may be left")
	}
}

// TestACPOpenToolCalls checks that each output of a run has the number of tool calls that are open at that time.
func TestACPOpenToolCalls(t *testing.T) {
	t.Parallel()
	w := newTestPlace(t, acpProjects(t))
	a := w.provisionIn("plain")
	r := w.start(a, "tool t1 execute sleep\ntool t2 fetch page\nthink Hm\npause\ndone t1\ndone t2\nsay Over.")
	outputs, _ := w.outputs(a, r, "")
	var openCalls []int
	for _, o := range outputs {
		if len(openCalls) == 0 || openCalls[len(openCalls)-1] != o.RunningToolCalls {
			openCalls = append(openCalls, o.RunningToolCalls)
		}
	}
	require.Equal(t, []int{0, 1, 2, 1, 0}, openCalls)
	require.True(t, strings.HasSuffix(outputText(outputs), "Over.\n"))
}

// TestACPOpenToolCallOnReconnect checks that a follower that connects during a tool call learns that the call is open.
func TestACPOpenToolCallOnReconnect(t *testing.T) {
	t.Parallel()
	w := newTestPlace(t, acpProjects(t))
	a := w.provisionIn("plain")
	r := w.start(a, "tool t1 execute sleep\nhang")
	followUntilOpen := func(cursor string) (last fleet.Output) {
		ctx, cancel := context.WithCancel(w.ctx)
		defer cancel()
		_, err := w.Connect(a).Follow(ctx, r, cursor, func(o fleet.Output) error {
			if last = o; o.RunningToolCalls > 0 {
				cancel()
			}
			return nil
		})
		require.ErrorIs(t, err, context.Canceled)
		return last
	}
	first := followUntilOpen("")
	require.Equal(t, "execute: sleep", first.Text)
	require.Equal(t, fleet.Output{Cursor: first.Cursor, RunningToolCalls: 1}, followUntilOpen(first.Cursor))
	w.interrupt(a, r)
	_, o := w.outputs(a, r, first.Cursor)
	require.Equal(t, fleet.TaskStopped, o.Status)
}

// TestACPSecrets checks that the secrets of MCP servers are removed with the run.
func TestACPSecrets(t *testing.T) {
	t.Parallel()
	w := newTestPlace(t, nil)
	a := fleet.Agent{Config: &fleet.AgentConfig{Driver: "acp", Command: []string{testBinary(t), "peer", "plain"}, MCPServers: []fleet.MCPServer{
		{Name: "tracker", Command: "tracker", Env: map[string]string{"TOKEN": "s3cret"}},
	}}, UID: "u1", Name: "papi", Role: "coder"}
	_, err := w.Provision(w.ctx, a)
	require.NoError(t, err)
	r := w.startUntil(a, "say Hi.\npause\nhang", "Hi.")
	data := readFile(t, w.runDir(a, r, "acp.json"))
	require.Contains(t, data, "s3cret")
	info, err := os.Stat(w.runDir(a, r, "acp.json"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	w.kill(a, r)
	w.follow(a, r)
	require.NoFileExists(t, w.runDir(a, r, "acp.json"))
}

// TestACPQuestions runs a program that asks for permissions, for itself and for a subagent that it has started. The rules of
// the role or people answer.
func TestACPQuestions(t *testing.T) {
	t.Parallel()
	w := newTestPlace(t, acpProjects(t, local.Role{Name: "coder", Permissions: &driver.Permissions{
		Allow: []string{"execute(ls *)"}, Deny: []string{"Bash(rm *)"}, Timeout: waittest.Limit,
	}}))
	a := w.provisionIn("plain")
	r := w.start(a, "ask t1 execute ls -l\nask t2 execute rm -rf x\nask t3 execute make\nnested t4 make install\nsay Done.")
	all, asked, o := w.followAnswering(a, r, func(fleet.Question) string { return fleet.AnswerAllow })
	require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
	require.Equal(t, 3, strings.Count(all, "selected yes\n"), all)
	require.Equal(t, 1, strings.Count(all, "selected no\n"), all)
	require.Contains(t, all, "denied by Bash(rm *)")
	require.Len(t, asked, 3, "a call that the role denies must not become a question")
	for id, want := range map[string][]string{"1": {"allow", "policy"}, "2": {"allow", "alice"}, "3": {"allow", "alice"}} {
		q := asked[id]
		require.Equal(t, fleet.QuestionAnswered, q.Status)
		require.Equal(t, want, []string{q.Answer, q.AnsweredBy})
	}
	require.JSONEq(t, `{"command":"make install"}`, string(asked["3"].Input))
	require.Equal(t, []string{"execute", "make install"}, []string{asked["3"].Tool, asked["3"].Text})

	// Stopping a run that waits for an answer cancels the run and withdraws its question.
	r = w.start(a, "say Working.\nask t1 execute make\nsay Never.")
	_, asked, o = w.followAnswering(a, r, func(fleet.Question) string {
		w.interrupt(a, r)
		return ""
	})
	require.Equal(t, fleet.TaskStopped, o.Status)
	require.Equal(t, fleet.QuestionWithdrawn, asked["1"].Status)
	require.Empty(t, runProcessesIn(t, w.home(a)), "no process may be left")
}
