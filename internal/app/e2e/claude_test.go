package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/place/placetest/model"
)

// answerCost is the cost of one answer of the stub in dollars at the prices that Claude Code uses: 3 dollars per million input
// tokens, and 15 dollars per million output tokens.
const answerCost = model.InputTokens*3e-6 + model.OutputTokens*15e-6

// needClaude skips the test if the test bed has no Claude Code.
func (b *testbed) needClaude(t *testing.T) {
	t.Helper()
	if !fileExists(filepath.Join(b.dir, "bin/claude")) {
		t.Skip("the test bed has no Claude Code: install npm, and run `make coder-up`")
	}
}

// newSharedModel starts a stub of the model. All workspaces that have no model of their own use it until the test ends.
func (b *testbed) newSharedModel(t *testing.T) *model.Server {
	t.Helper()
	m := model.New(t)
	file := filepath.Join(b.dir, "model-url")
	require.NoError(t, os.WriteFile(file, []byte(m.URL), 0o600))
	t.Cleanup(func() { require.NoError(t, os.Remove(file)) })
	return m
}

// TestClaude runs the real Claude Code in a workspace of the public template, with a stub of its model.
func TestClaude(t *testing.T) {
	b := newTestbed(t, "bob")
	b.needClaude(t)
	m := model.New(t) // before the server, so that it ends after the server
	c := &claudeTest{caller: b.serve(t, setup{}).callerOn("mcp"), model: m, outer: t}
	start := time.Now()
	r := c.call(t, "create_agent", object{"name": "Papi", "project": "Claude", "role": "operator", "spec": "Keep the tests honest."})
	t.Logf("create → idle in %s", time.Since(start).Round(10*time.Millisecond))
	require.Equal(t, "idle", r.text("agent.status"), "%v", r)
	c.home = b.home(t, c.workspaceOf("Papi"))
	require.NoError(t, os.WriteFile(filepath.Join(c.home, "model-url"), []byte(c.model.URL), 0o600))
	for _, step := range []struct {
		name string
		take func(*testing.T)
	}{
		{"text", c.text},
		{"tools, cost and usage", c.tools},
		{"follow-up", c.followUp},
		{"stop", c.stop},
		{"Fleet dies meanwhile", c.serverKilled},
		{"the workspace is restarted", c.workspaceRestarted},
		{"failure", c.failure},
	} {
		if !t.Run(step.name, step.take) {
			t.FailNow() // the following steps depend on this step
		}
	}
	c.remove(t, "Papi")
}

// claudeTest uses the agent Papi, which is Claude Code. Its steps depend on each other.
type claudeTest struct {
	caller
	model *model.Server
	home  string     // the home directory of the agent's workspace
	outer *testing.T // the test with all steps; its end stops the servers
}

// show returns the task with its payload.
func (c *claudeTest) show(t *testing.T, id string) object {
	t.Helper()
	task, _ := c.call(t, "show_task", object{"task_id": id, "include_payload": true})["task"].(map[string]any)
	return task
}

// awaitArrival waits until a request to the model is at the gate, and returns the gate.
func (c *claudeTest) awaitArrival(t *testing.T, gate string) *model.Gate {
	t.Helper()
	g := c.model.Gate(gate)
	select {
	case <-g.Arrived():
	case <-time.After(defaultTimeout / 4):
		require.Fail(t, "the model must receive a request", "%s: %v", gate, c.agent(t, "Papi"))
	}
	return g
}

// text checks that the answer of the model is the result of the task, and that the model receives the texts about the role.
func (c *claudeTest) text(t *testing.T) {
	answer := strings.TrimSpace(fragileText)
	start := time.Now()
	said, err := json.Marshal(answer)
	require.NoError(t, err)
	id := c.startTask(t, "Papi", "Explain the plan.\nmodel: say "+string(said))
	done := c.wait(t, id)
	t.Logf("first answer of Claude Code in %s", time.Since(start).Round(10*time.Millisecond))
	require.Equal(t, "completed", done["status"], "%v", done)
	require.Equal(t, answer, c.show(t, id).text("payload"))
	require.Equal(t, answer+"\n", c.taskOutput(t, id))
	requests := c.model.RequestsWith("Explain the plan.")
	require.Len(t, requests, 1)
	require.Contains(t, requests[0].System, "You are an operations engineer.", "the system prompt must contain the template's text about the role")
	require.Contains(t, requests[0].System, "Keep the tests honest.")
	require.Equal(t, "claude-sonnet-4-5", requests[0].Model)
}

// tools checks that calls of tools are steps of the task, and that its cost is known.
func (c *claudeTest) tools(t *testing.T) {
	id := c.startTask(t, "Papi", strings.Join([]string{
		"Make a file.", `model: tool Write {"file_path":"made.txt","content":"made by a tool\n"}`,
		`model: tool Bash {"command":"cat made.txt; pwd"}`, "model: say It is made",
	}, "\n"))
	done := c.wait(t, id)
	require.Equal(t, "completed", done["status"], "%v", done)
	var steps []string
	for _, e := range c.call(t, "watch_fleet", object{"task_id": id, "cursor": "0"}).list("events") {
		if e["type"] == "task_step" {
			steps = append(steps, e.text("text"))
		}
	}
	require.Equal(t, []string{"Write: made.txt", "Bash: cat made.txt; pwd"}, steps)
	detail := c.show(t, id)
	require.Equal(t, "It is made", detail["summary"])
	require.EqualValues(t, 0, detail["exit_code"])
	require.EqualValues(t, 3, detail["turns"])
	require.InDelta(t, 3*answerCost, detail["cost_usd"], 1e-9)
	requests := c.model.RequestsWith("Make a file.")
	require.Len(t, requests, 3)
	results := requests[2].Results()
	require.Contains(t, results[len(results)-1].Text, "made by a tool\n"+filepath.Join(c.home, "work"))
}

// followUp checks that a second task continues the conversation.
func (c *claudeTest) followUp(t *testing.T) {
	id := c.startTask(t, "Papi", "Which file was it?\nmodel: say made.txt")
	require.Equal(t, "made.txt", c.wait(t, id)["summary"])
	require.Contains(t, c.model.RequestsWith("Which file was it?")[0].Transcript(), "Make a file.", "the conversation must continue")
	require.InDelta(t, answerCost, c.show(t, id)["cost_usd"], 1e-9, "the cost must be of the task alone, not of the outer conversation")
}

// stop checks that a stopped task ends quickly, with all of its processes.
func (c *claudeTest) stop(t *testing.T) {
	quickest := defaultTimeout
	for try := 0; try < 3 && quickest >= stopLimit; try++ { // up to three times, because this machine may be busy
		gate := fmt.Sprintf("thought-%d", try)
		id := c.startTask(t, "Papi", "Think hard.\nmodel: tool Bash {\"command\":\"sleep 3600\",\"run_in_background\":true}\nmodel: hang "+gate)
		g := c.awaitArrival(t, gate)
		require.NotEmpty(t, taskProcesses(c.home, id))
		start := time.Now()
		r := c.call(t, "stop_agent_task", object{"agent_name": "Papi"})
		require.Empty(t, taskProcesses(c.home, id), "no process of a stopped task may run")
		quickest = min(quickest, time.Since(start))
		t.Logf("stopped without remaining processes in %s", time.Since(start).Round(time.Millisecond))
		require.Equal(t, "stopped", r.text("task.status"))
		select {
		case <-g.Left():
		case <-time.After(defaultTimeout):
			require.Fail(t, "the connection of the request to the model must be closed")
		}
	}
	require.Less(t, quickest, stopLimit)
}

// serverKilled checks that a task continues while the server is replaced.
func (c *claudeTest) serverKilled(t *testing.T) {
	id := c.startTask(t, "Papi", "Go on without me.\nmodel: tool Bash {\"command\":\"echo once >>log\"}\nmodel: hang alone\nmodel: say Done")
	g := c.awaitArrival(t, "alone")
	c.kill(t)
	c.caller = c.testbed.serve(c.outer, setup{prefix: c.prefix, data: c.data}).callerOn("grpc")
	g.Open()
	done := c.wait(t, id)
	require.Equal(t, "completed", done["status"], "%v", done)
	log, err := os.ReadFile(filepath.Join(c.home, "work/log"))
	require.NoError(t, err)
	require.Equal(t, "once\n", string(log))
	require.InDelta(t, 2*answerCost, c.show(t, id)["cost_usd"], 1e-9)
	require.Len(t, c.model.RequestsWith("Go on without me."), 2, "the task must run once")
}

// workspaceRestarted checks that a restart ends the task, and that the conversation survives.
func (c *claudeTest) workspaceRestarted(t *testing.T) {
	id := c.startTask(t, "Papi", "Wait for the end.\nmodel: hang end")
	c.awaitArrival(t, "end")
	require.Equal(t, "idle", c.call(t, "restart_agent", object{"agent_name": "Papi", "role": "manager"}).text("agent.status"))
	require.Contains(t, []string{"failed", "stopped"}, c.wait(t, id)["status"])
	require.Empty(t, taskProcesses(c.home, id))
	done := c.wait(t, c.startTask(t, "Papi", "Do you remember?\nmodel: say Yes"))
	require.Equal(t, "Yes", done["summary"], "%v", done)
	q := c.model.RequestsWith("Do you remember?")[0]
	require.Contains(t, q.Transcript(), "Which file was it?", "the conversation must survive in the persistent home")
	require.Contains(t, q.System+q.Transcript(), "You are an engineering manager.")
}

// failure checks that the reason of a failed task is the error of the model.
func (c *claudeTest) failure(t *testing.T) {
	done := c.wait(t, c.startTask(t, "Papi", "Ask for too much.\nmodel: refuse 400 that is too much"))
	require.Equal(t, "failed", done["status"], "%v", done)
	require.Contains(t, done["reason"], "that is too much")
}
