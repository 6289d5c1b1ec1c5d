package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/app/e2e/faultproxy"
)

// TestChaosKills randomly kills everything between tasks and Fleet while agents with a fleet-runner work: the Fleet
// server, runners, Coder agents in workspaces, the Coder server, and connections. No line of a task may be lost or
// repeated, and each task must run once. FLEET_CHAOS sets how long the kills last. FLEET_SEED repeats a sequence of
// kills.
func TestChaosKills(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("FLEET_CHAOS"))
	if err != nil {
		t.Skip("set FLEET_CHAOS to a duration, or run `make chaos`")
	}
	seed, err := strconv.ParseUint(os.Getenv("FLEET_SEED"), 10, 64)
	if err != nil {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("%s of kills, seed %d", length, seed)
	b := newTestbed(t, "bob")
	proxy, err := faultproxy.New(b.url, seed, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, proxy.Close()) }()
	k := &killLoad{testbed: b, url: proxy.URL(), data: t.TempDir(), prefix: b.newPrefix(t), endedByStatus: map[string]int{}}
	k.server = b.serve(t, setup{url: k.url, prefix: k.prefix, data: k.data})
	for i := range chaosAgents {
		r := k.api().call(t, "create_agent", object{"name": agentName(i), "project": "Runner", "spec": "x"})
		require.Equal(t, "idle", r.text("agent.status"), "%v", r)
	}

	// The share of a kind of kill is its probability in percent.
	r := rand.New(rand.NewPCG(seed, 0))
	victims := []struct {
		name  string
		share int
		kill  func()
	}{
		{"connections", 35, proxy.CloseConns},
		{"runner", 30, func() { b.killRunner(t, k.prefix+agentName(r.IntN(chaosAgents))) }},
		{"agent of Coder", 18, func() { b.restartAgent(t, k.prefix+agentName(r.IntN(chaosAgents))) }},
		{"Fleet server", 12, func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.server.kill(t)
			k.server = b.serve(t, setup{url: k.url, prefix: k.prefix, data: k.data})
		}},
		{"Coder server", 5, func() { b.restartCoder(t) }},
	}
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var load sync.WaitGroup
	for i := range chaosAgents {
		load.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i+1)))
			for ctx.Err() == nil && !t.Failed() {
				k.runTask(t, agentName(i), r)
			}
		})
	}
	kills, total := map[string]int{}, 0
	for ctx.Err() == nil && !t.Failed() {
		pick := r.IntN(100)
		for _, v := range victims {
			if pick -= v.share; pick < 0 {
				v.kill()
				kills[v.name]++
				total++
				break
			}
		}
		select {
		case <-time.After(time.Duration(200+r.IntN(1000)) * time.Millisecond): // the pace of the kills
		case <-ctx.Done():
		}
	}
	load.Wait() // each worker completes the task that it has started
	t.Logf("kills %d: %v", total, kills)
	t.Logf("tasks %v, with %d lines; longest %s", k.endedByStatus, k.lines, k.longest.Round(100*time.Millisecond))
	for i := range chaosAgents {
		k.api().remove(t, agentName(i))
	}
}

// killLoad is the load during the kills, with the results of its tasks.
type killLoad struct {
	*testbed
	url, data, prefix string

	mu     sync.RWMutex // held while server is replaced
	server *server

	resultsMu     sync.Mutex     // guards the fields below
	endedByStatus map[string]int // number of ended tasks, by status
	lines         int            // of output of the tasks
	longest       time.Duration  // the longest time from the start of a task until its result was checked
}

func (k *killLoad) api() caller {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.server.callerOn("rest")
}

// repeatCall repeats a tool call until a server answers. Repeating is safe, because the call has a request id or only reads. It
// returns nil if the answer is an error with one of the reasons. Another error, or no answer for too long, fails the test.
func (k *killLoad) repeatCall(t *testing.T, tool string, args object, reasons ...string) object {
	if _, reads := args["task_id"]; !reads {
		args["request_id"] = newTag()
	}
	var last any
	for start := time.Now(); time.Since(start) < 2*recoveryTime && !t.Failed(); {
		ctx, cancel := context.WithTimeout(t.Context(), defaultTimeout)
		answer, problem, err := k.api().callREST(ctx, method(tool), tool, args)
		cancel()
		switch {
		case err == nil && problem == nil:
			return answer
		case err == nil && slices.Contains(reasons, problem.Reason):
			return nil
		case err == nil && problem.Reason != "BACKEND_UNAVAILABLE":
			t.Errorf("%s %v: %v", tool, args, problem)
			return nil
		}
		last = fmt.Sprint(problem, err)
		<-time.After(100 * time.Millisecond)
	}
	t.Errorf("%s %v got no answer: %v", tool, args, last)
	return nil
}

// runTask starts a task for the agent, waits for its end, and checks the result. Sometimes it stops the task.
func (k *killLoad) runTask(t *testing.T, agent string, r *rand.Rand) {
	tag, lines, stop := newTag(), 20+r.IntN(100), r.IntN(6) == 0
	script := fmt.Sprintf("echo begun >>%[1]s; for i in $(seq %[2]d); do echo line $i %[1]s; sleep 0.05; done; echo ended >>%[1]s", tag, lines)
	start := time.Now()
	var started object
	for started == nil && !t.Failed() { // each try is a new request, because the server refuses a task while the agent is offline
		started = k.repeatCall(t, "start_agent_task", object{"agent_name": agent, "task_description": script}, "AGENT_OFFLINE")
		if time.Since(start) > recoveryTime {
			t.Errorf("%s must not stay offline", agent)
		}
	}
	id := started.text("task.id")
	if stop {
		k.repeatCall(t, "stop_agent_task", object{"agent_name": agent}, "NO_RUNNING_TASK", "AGENT_OFFLINE")
	}
	var task object
	for !t.Failed() {
		shown := k.repeatCall(t, "show_task", object{"task_id": id, "include_payload": true})
		task, _ = shown.valueAt("task").(map[string]any)
		if s := task.text("status"); s != "pending" && s != "running" {
			break
		}
		if time.Since(start) > 2*recoveryTime {
			t.Errorf("%s of %s must end: %v", tag, agent, task)
		}
		<-time.After(200 * time.Millisecond)
	}
	if t.Failed() {
		return
	}
	var want strings.Builder
	for i := range lines {
		fmt.Fprintf(&want, "line %d %s\n", i+1, tag)
	}
	output := outputText(k.repeatCall(t, "watch_fleet", object{"task_id": id, "cursor": "0", "max_events": 10000}))
	marks, err := os.ReadFile(filepath.Join(k.home(t, k.prefix+agent), "work", tag))
	switch status := task.text("status"); {
	case strings.Count(string(marks), "begun") > 1:
		t.Errorf("%s of %s was run again: %q", tag, agent, marks)
	case stop && status == "stopped":
		if payload := task.text("payload"); !strings.HasPrefix(want.String(), payload) || output != payload {
			t.Errorf("%s of %s lost lines before it was stopped: %q, %q", tag, agent, payload, output)
		}
	case status != "completed":
		t.Errorf("%s of %s did not succeed: %v", tag, agent, task)
	case err != nil || string(marks) != "begun\nended\n":
		t.Errorf("%s of %s did not run exactly once: %q %v", tag, agent, marks, err)
	case task.text("payload") != want.String():
		t.Errorf("%s of %s lost lines: %q", tag, agent, task.text("payload"))
	case output != want.String():
		t.Errorf("%s of %s lost or repeated events: %q", tag, agent, output)
	}
	k.resultsMu.Lock()
	defer k.resultsMu.Unlock()
	k.endedByStatus[task.text("status")]++
	k.lines += strings.Count(output, "\n")
	k.longest = max(k.longest, time.Since(start))
}
