package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	startLimit = time.Second     // from start_agent_task until the task is completed, with a program that only prints hello
	stopLimit  = 3 * time.Second // from stop_agent_task until no process of the task is left
)

// fragileText is a text that a terminal with 80 columns would change.
var fragileText = "# Plan\n\n| name | state |\n|------|-------|\n| papi | `idle` |\n\n```go\nfunc main() {\n\tfmt.Println(\"hi\")   \n}\n```\n" +
	"─── ✻ ● ┌─┐ > " + strings.Repeat("a long line ", 40) + "\n\nThat is all.\n"

// TestRunner runs scripts in a workspace with a fleet-runner. It checks every byte of their output, their exit codes and messages, and how fast they
// start and stop. No process may survive a stopped task, a stopped workspace or a deleted agent.
func TestRunner(t *testing.T) {
	b := newTestbed(t, "bob")
	s := b.serve(t, setup{})
	c := s.callerOn("mcp")
	start := time.Now()
	r := c.call(t, "create_agent", object{"name": "Papi", "project": "Runner", "role": "operator", "spec": "x"})
	t.Logf("create → idle in %s", time.Since(start).Round(10*time.Millisecond))
	require.Equal(t, "idle", r.text("agent.status"), "%v", r)
	ws := s.workspaceOf("Papi")
	home := b.home(t, ws)
	require.Len(t, runners(home), 1)

	t.Run("hello", func(t *testing.T) {
		var elapsed []time.Duration
		for i := range 7 { // this machine may be busy
			start := time.Now()
			done := c.wait(t, c.startTask(t, "Papi", fmt.Sprintf("echo hello %d", i)))
			elapsed = append(elapsed, time.Since(start))
			require.Equal(t, "completed", done["status"], "%v", done)
			require.Equal(t, fmt.Sprintf("hello %d", i), done["summary"])
		}
		slices.Sort(elapsed)
		t.Logf("start_agent_task → completed in %s at best, %s in the middle, %s at worst", elapsed[0].Round(time.Millisecond), elapsed[3].Round(time.Millisecond), elapsed[6].Round(time.Millisecond))
		require.Less(t, elapsed[0], startLimit)
	})
	t.Run("text", func(t *testing.T) {
		id := c.startTask(t, "Papi", "cat <<'END'\n"+fragileText+"END\n")
		require.Equal(t, "completed", c.wait(t, id)["status"])
		detail := c.call(t, "show_task", object{"task_id": id, "include_payload": true})
		require.Equal(t, fragileText, detail.text("task.payload"))
		require.EqualValues(t, 0, detail.valueAt("task.exit_code"))
		require.Equal(t, fragileText, c.taskOutput(t, id))
	})
	t.Run("failure", func(t *testing.T) {
		id := c.startTask(t, "Papi", "echo no compiler >&2; exit 3")
		done := c.wait(t, id)
		require.Equal(t, "failed", done["status"], "%v", done)
		require.Contains(t, done["reason"], "exit code 3: no compiler")
		require.EqualValues(t, 3, c.call(t, "show_task", object{"task_id": id}).valueAt("task.exit_code"))
	})
	t.Run("messages", func(t *testing.T) {
		id := c.startTask(t, "Papi", `for i in 1 2; do read -r m <"$FLEET_MESSAGES"; printf '%s\n' "$m"; done`)
		for _, m := range []string{"the first > message", "the second | one"} {
			require.Equal(t, id, c.call(t, "send_task_message", object{"agent_name": "Papi", "message": m}).text("task.id"))
		}
		require.Equal(t, "completed", c.wait(t, id)["status"])
		detail := c.call(t, "show_task", object{"task_id": id, "include_payload": true})
		require.Equal(t, "the first > message\nthe second | one\n", detail.text("task.payload"))
	})
	t.Run("stop", func(t *testing.T) {
		quickest := defaultTimeout
		for try := 0; try < 3 && quickest >= stopLimit; try++ { // this machine may be busy
			id := c.startTask(t, "Papi", "setsid sleep 3601 & (sleep 3602 &) ; sleep 3603")
			within(t, defaultTimeout, "the task runs", func() bool {
				n := 0
				for _, p := range taskProcesses(home, id) {
					if p.argv[0] == "sleep" {
						n++
					}
				}
				return n == 3
			})
			start := time.Now()
			done := c.call(t, "stop_agent_task", object{"agent_name": "Papi"})
			require.Empty(t, taskProcesses(home, id), "no process of a stopped task may run")
			quickest = min(quickest, time.Since(start))
			t.Logf("stopped, with proof, in %s", time.Since(start).Round(time.Millisecond))
			require.Equal(t, "stopped", done.text("task.status"))
			require.Equal(t, "idle", done["agent_status"])
		}
		require.Less(t, quickest, stopLimit)
	})
	t.Run("one at a time", func(t *testing.T) {
		id := c.startTask(t, "Papi", "echo working; sleep 3600")
		c.requireRefusal(t, "start_agent_task", object{"agent_name": "Papi", "task_description": "echo too many"}, "AGENT_BUSY", 409, "Papi")
		c.call(t, "stop_agent_task", object{"agent_name": "Papi"})
		require.Equal(t, "stopped", c.wait(t, id)["status"])
	})
	t.Run("restart of the workspace", func(t *testing.T) {
		id := c.startTask(t, "Papi", "echo begun >>restarts; echo working; sleep 3600")
		b.eventually(t, "the task works", func() bool { return fileExists(filepath.Join(home, "work/restarts")) })
		at, _ := b.workspace(t, ws)
		require.Equal(t, 201, b.requestBuild(t, at.ID, "stop"))
		done := c.wait(t, id)
		require.Equal(t, "failed", done["status"], "%v", done)
		require.Regexp(t, "workspace (is|was) stopp(ed|ing)", done["reason"])
		b.eventually(t, "the workspace is stopped", func() bool {
			at, _ := b.workspace(t, ws)
			return at.LatestBuild.Status == "stopped"
		})
		require.Empty(t, processes(home))
		require.Equal(t, "idle", c.call(t, "start_agent", object{"agent_name": "Papi"}).text("agent.status"))
		require.Equal(t, "completed", c.wait(t, c.startTask(t, "Papi", "echo back"))["status"])
		times, err := os.ReadFile(filepath.Join(home, "work/restarts"))
		require.NoError(t, err)
		require.Equal(t, "begun\n", string(times))
	})
	t.Run("delete", func(t *testing.T) {
		c.startTask(t, "Papi", "sleep 3600")
		c.remove(t, "Papi")
		require.Empty(t, processes(home))
	})
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestRunnerSurvivesKills kills the runner, Coder's agent, and both servers, one after another, each while a task prints lines. Each line must arrive once,
// and the task must run once.
func TestRunnerSurvivesKills(t *testing.T) {
	b := newTestbed(t, "bob")
	s := b.serve(t, setup{})
	c := s.callerOn("grpc")
	require.Equal(t, "idle", c.call(t, "create_agent", object{"name": "Papi", "project": "Runner", "spec": "x"}).text("agent.status"))
	ws := s.workspaceOf("Papi")
	home := b.home(t, ws)
	for name, crash := range map[string]func(){
		"the runner":       func() { b.killRunner(t, ws) },
		"Coder's agent":    func() { b.restartAgent(t, ws) },
		"the Coder server": func() { b.restartCoder(t) },
		"the Fleet server": func() {
			c.kill(t)
			c = b.serve(t, setup{prefix: s.prefix, data: s.data}).callerOn("rest")
		},
	} {
		t.Run(name, func(t *testing.T) {
			const lines = 120
			tag := newTag()
			id := c.startTask(t, "Papi", fmt.Sprintf("echo begun >>%[1]s; for i in $(seq %[2]d); do echo line $i; echo $i >%[1]s.at; sleep 0.05; done; echo ended >>%[1]s", tag, lines))
			b.eventually(t, "the task is under way", func() bool { return fileExists(filepath.Join(home, "work", tag+".at")) })
			crash()
			done := c.wait(t, id)
			require.Equal(t, "completed", done["status"], "%v", done)
			var want strings.Builder
			for i := range lines {
				fmt.Fprintf(&want, "line %d\n", i+1)
			}
			detail := c.call(t, "show_task", object{"task_id": id, "include_payload": true})
			require.Equal(t, want.String(), detail.text("task.payload"))
			require.Equal(t, want.String(), c.taskOutput(t, id), "the events must have each line once")
			times, err := os.ReadFile(filepath.Join(home, "work", tag))
			require.NoError(t, err)
			require.Equal(t, "begun\nended\n", string(times), "the task must run once")
			b.eventually(t, "the agent is idle", func() bool { return c.agent(t, "Papi")["status"] == "idle" })
		})
	}
	c.remove(t, "Papi")
}

// taskOutput returns the text of the task's output events, of which it reads at most 10000.
func (c caller) taskOutput(t testing.TB, id string) string {
	t.Helper()
	return outputText(c.call(t, "watch_fleet", object{"task_id": id, "cursor": "0", "max_events": 10000}))
}

// outputText returns the text of the output events in the response of watch_fleet.
func outputText(response object) string {
	var text strings.Builder
	for _, e := range response.list("events") {
		if e["type"] == "task_output" {
			text.WriteString(e.text("text"))
		}
	}
	return text.String()
}
