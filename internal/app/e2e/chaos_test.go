package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/app"
	"fleet/internal/app/e2e/faultproxy"
	"fleet/internal/waittest"
)

const (
	chaosAgents   = 4
	blackholeTime = 30 * time.Second // how long Coder does not answer in a blackhole of a long run
	recoveryTime  = 3 * time.Minute  // how long agents may take to become idle after the network has recovered
)

// TestChaos simulates a bad network between Fleet and Coder while agents are created, work, and are stopped, restarted
// and deleted. No task may be lost or started twice, no call may hang, and no connection and no goroutine may leak.
// FLEET_CHAOS sets how long this lasts. `make chaos CHAOS=10m` is the full run.
func TestChaos(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("FLEET_CHAOS"))
	if err != nil {
		t.Skip("set FLEET_CHAOS to a duration, or run `make chaos`")
	}
	b := newTestbed(t, "bob")
	seed := uint64(time.Now().UnixNano())
	c := &chaosLoad{testbed: b, prefix: b.newPrefix(t), tasks: map[string]*loadTask{}, prompts: map[string]map[string]bool{}, acceptedMessages: map[string]int{}}
	proxy, err := faultproxy.New(b.url, seed, c.recordMessage)
	require.NoError(t, err)
	defer func() { require.NoError(t, proxy.Close()) }()
	t.Logf("%s of chaos, seed %d", length, seed)

	runtime.GC()
	before := fleetGoroutines(t)
	stop := c.open(t, proxy.URL())
	for i := range chaosAgents {
		c.createAgent(t, agentName(i))
	}
	running, conns := fleetGoroutines(t), proxy.Stats().OpenConns

	c.runLoad(t, proxy, length, seed)
	calm := time.Now()
	proxy.SetFaults(faultproxy.Faults{})
	c.waitForRecovery(t)
	settled := time.Since(calm)

	idle, idleConns := fleetGoroutines(t), proxy.Stats().OpenConns
	c.checkResults(t)
	for i := range chaosAgents {
		c.api().remove(t, agentName(i))
	}
	stop()
	within(t, defaultTimeout, "no connection is left", func() bool { return proxy.Stats().OpenConns == 0 })
	within(t, defaultTimeout, "no goroutine of Fleet is left", func() bool { return fleetGoroutines(t) <= before })

	s := proxy.Stats()
	t.Logf("requests to Coder   %d: %d slow, %d refused, %d refused after they had arrived, %d answers cut, %d blackholes", s.Requests, s.Slow, s.Refused, s.RefusedAfter, s.Cut, c.blackholes)
	t.Logf("calls               %d, of which %d failed and were repeated; the longest took %s with its repetitions", c.calls, c.repeatedCalls, c.longest.Round(time.Millisecond))
	t.Logf("list_agents         %d times: p50 %s, p99 %s, max %s", len(c.listDurations), quantile(c.listDurations, 0.5), quantile(c.listDurations, 0.99), quantile(c.listDurations, 1))
	t.Logf("agents stopped      %d, because nothing else had ended their tasks", c.stoppedAgents)
	t.Logf("at rest             %s after the last fault", settled.Round(100*time.Millisecond))
	t.Logf("goroutines of Fleet %d at first, %d at rest, %d after the end", running, idle, fleetGoroutines(t))
	t.Logf("connections         %d at first, at most %d, %d at rest, %d after the end", conns, s.MaxConns, idleConns, s.OpenConns)
	require.LessOrEqual(t, idleConns, 16+4*chaosAgents, "connections must not accumulate")
	require.Less(t, idle, running+50, "goroutines must not accumulate")
}

func agentName(i int) string { return fmt.Sprintf("Chaos-%d", i) }

// chaosLoad is the load, with records of its tasks and messages.
type chaosLoad struct {
	*testbed
	prefix     string
	server     *server
	blackholes int

	mu               sync.Mutex
	tasks            map[string]*loadTask       // by the tag in their prompts
	prompts          map[string]map[string]bool // by tag: the messages with the tag in conversations, each as its agent and time
	acceptedMessages map[string]int             // by tag: the number of messages with the tag that AgentAPI accepted, as the proxy saw
	listDurations    []time.Duration            // durations of list_agents
	calls            int                        // calls of repeatCall, with their repetitions
	repeatedCalls    int
	stoppedAgents    int           // number of agents that were stopped to end their tasks
	longest          time.Duration // of a call of repeatCall, with its repetitions
}

// loadTask is a task of the load, or a message to one.
type loadTask struct {
	id, agent, tag  string
	message         bool // it is a message to a task, not a task
	interrupted     bool // the load stops, restarts or deletes the agent during the task
	withoutMessages bool // the task gets no messages, so its summary must be about its own prompt
}

// open starts a server in this process that reaches Coder at the proxy's URL. stop ends the server, and the end of the test does so
// too.
func (c *chaosLoad) open(t *testing.T, url string) (stop func()) {
	cfg := app.DefaultConfig()
	cfg.HTTP, cfg.GRPC, cfg.Data, cfg.Places = "127.0.0.1:0", "127.0.0.1:0", t.TempDir(), []string{"coder"}
	cfg.CreateWait, cfg.LogFormat = 30*time.Second, "json"
	cfg.Coder.URL, cfg.Coder.Prefix = url, &c.prefix
	t.Setenv("CODER_SESSION_TOKEN", c.token)
	log := &memoryLog{}
	a, err := app.Open(t.Context(), cfg, app.Options{Log: log, CloseGrace: waittest.Limit})
	require.NoError(t, err)
	l, err := a.Listen("chaos")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- l.Serve(ctx) }()
	c.server = &server{testbed: c.testbed, prefix: c.prefix}
	c.server.connect(t, l.HTTPAddr(), l.GRPCAddr())
	stop = sync.OnceFunc(func() {
		_ = c.server.mcp.Close()
		_ = c.server.grpc.Close()
		cancel()
		require.NoError(t, <-served)
		require.NotContains(t, log.text(), c.token)
		if t.Failed() || os.Getenv("FLEET_CHAOS_LOG") != "" {
			t.Logf("log of the server:\n%s", log.text())
		}
	})
	t.Cleanup(stop)
	return stop
}

// memoryLog is a log in memory, for concurrent use.
type memoryLog struct {
	mu sync.Mutex
	b  strings.Builder
}

func (m *memoryLog) Write(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.b.Write(b)
}

func (m *memoryLog) text() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.b.String()
}

func (c *chaosLoad) api() caller { return c.server.callerOn("grpc") }

// recordMessage records the exchange if it is a message of a user that an AgentAPI has accepted.
func (c *chaosLoad) recordMessage(s faultproxy.Exchange) {
	if s.Method != http.MethodPost || s.Status != http.StatusOK || !strings.HasSuffix(s.Path, "/apps/agentapi/message") {
		return
	}
	var m struct{ Type, Content string }
	if json.Unmarshal(s.Body, &m) != nil || m.Type != "user" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acceptedMessages[tagOf(m.Content)]++
}

// tagOf returns the tag in a prompt, which is a word that no other prompt contains. It returns "" if the prompt has no tag.
func tagOf(prompt string) string {
	for word := range strings.FieldsSeq(prompt) {
		if strings.HasPrefix(word, "tag-") {
			return word
		}
	}
	return ""
}

// runLoad runs the load while the network is bad.
func (c *chaosLoad) runLoad(t *testing.T, proxy *faultproxy.Proxy, length time.Duration, seed uint64) {
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	faults := faultproxy.Faults{Latency: 2 * time.Second, Slow: 0.2, Refuse: 0.2, Cut: 0.1}
	proxy.SetFaults(faults)
	var load, watch sync.WaitGroup
	for i := range chaosAgents {
		load.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for ctx.Err() == nil && !t.Failed() {
				c.randomAction(t, r, agentName(i))
			}
		})
	}
	watching, stopWatching := context.WithCancel(t.Context())
	watch.Go(func() { c.pollAgents(t, watching) })
	watch.Go(func() { c.pollConversations(t, watching) })

	// One blackhole in the middle of a short run, and one every two minutes in a long one.
	every := min(2*time.Minute, length/2)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
			hole, end := context.WithTimeout(t.Context(), min(blackholeTime, length/3))
			c.blackholes++
			proxy.Blackhole(hole)
			end()
		case <-ctx.Done():
		}
	}
	load.Wait() // each worker completes the action that it has started
	stopWatching()
	watch.Wait()
}

// randomAction performs one random action on the agent, and waits for its result.
func (c *chaosLoad) randomAction(t *testing.T, r *rand.Rand, agent string) {
	switch chance := r.IntN(100); {
	case chance < 50:
		e := c.startTask(t, agent, fmt.Sprintf("sleep %d", r.IntN(4)))
		e.withoutMessages = true
		c.api().wait(t, e.id)
	case chance < 65:
		e := c.startTask(t, agent, "sleep 300")
		e.interrupted = true
		if r.IntN(2) == 0 {
			within(t, recoveryTime, "the agent works", func() bool { return c.timesSent(e.tag) > 0 })
		}
		c.repeatCall(t, "stop_agent_task", object{"agent_name": agent}, "NO_RUNNING_TASK")
		c.api().wait(t, e.id)
	case chance < 80:
		e := c.startTask(t, agent, "sleep 4")
		tag := newTag()
		m := &loadTask{id: e.id, agent: agent, tag: tag, message: true}
		if _, refused := c.repeatCall(t, "send_task_message", object{"agent_name": agent, "message": "echo " + tag}, "NO_RUNNING_TASK", "AGENT_OFFLINE"); !refused {
			c.mu.Lock()
			c.tasks[tag] = m
			c.mu.Unlock()
		}
		c.api().wait(t, e.id)
	case chance < 88:
		c.repeatCall(t, "restart_agent", object{"agent_name": agent, "role": []string{"coder", "operator", "manager"}[r.IntN(3)]})
	case chance < 94:
		c.repeatCall(t, "stop_agent", object{"agent_name": agent})
		c.repeatCall(t, "start_agent", object{"agent_name": agent})
	default:
		e := c.startTask(t, agent, "sleep 300")
		e.interrupted = true
		c.repeatCall(t, "delete_agent", object{"agent_name": agent}, "AGENT_NOT_FOUND")
		within(t, recoveryTime, agent+" is deleted", func() bool {
			_, problem := c.api().try(t, "show_agent", object{"agent_name": agent})
			return problem != nil && problem.Reason == "AGENT_NOT_FOUND"
		})
		c.api().wait(t, e.id)
		c.createAgent(t, agent)
	}
}

// newTag returns a random tag for a prompt, see tagOf.
func newTag() string { return fmt.Sprintf("tag-%016x", rand.Uint64()) }

// createAgent creates the agent and waits until it can work.
func (c *chaosLoad) createAgent(t *testing.T, agent string) {
	c.repeatCall(t, "create_agent", object{"name": agent, "project": "Setup", "spec": "x"})
	c.waitUntilIdle(t, agent)
}

// waitUntilIdle waits until the agent can work. If the agent's workspace was stopped to end a task, it starts the agent.
func (c *chaosLoad) waitUntilIdle(t *testing.T, agent string) {
	t.Helper()
	var a object
	defer func() {
		if t.Failed() {
			t.Logf("%s: %v", agent, a)
		}
	}()
	within(t, recoveryTime, agent+" is idle", func() bool {
		a = c.api().agent(t, agent)
		if a["state"] == "stopped" {
			c.mu.Lock()
			c.stoppedAgents++
			c.mu.Unlock()
			c.repeatCall(t, "start_agent", object{"agent_name": agent})
		}
		return a["status"] == "idle"
	})
}

// startTask waits until the agent can accept a task, and starts the task.
func (c *chaosLoad) startTask(t *testing.T, agent, description string) *loadTask {
	tag := newTag()
	e := &loadTask{agent: agent, tag: tag}
	c.mu.Lock()
	c.tasks[tag] = e
	c.mu.Unlock()
	for start := time.Now(); ; {
		r, refused := c.repeatCall(t, "start_agent_task", object{"agent_name": agent, "task_description": description + " " + tag}, "AGENT_OFFLINE")
		if !refused {
			e.id = r.text("task.id")
			return e
		}
		require.Less(t, time.Since(start), recoveryTime, "%s must not stay offline: %v", agent, c.api().agent(t, agent))
		c.waitUntilIdle(t, agent)
	}
}

// repeatCall repeats a tool call until the server answers it. Repeating is safe, because the call has a request id. refused
// reports whether the answer is an error with one of the reasons. Another error, or no answer for too long, fails the test.
func (c *chaosLoad) repeatCall(t *testing.T, tool string, args object, reasons ...string) (answer object, refused bool) {
	args["request_id"] = newTag()
	start := time.Now()
	for {
		answer, problem := c.api().try(t, tool, args)
		c.mu.Lock()
		c.calls++
		c.longest = max(c.longest, time.Since(start))
		if problem != nil && problem.Reason == "BACKEND_UNAVAILABLE" {
			c.repeatedCalls++
		}
		c.mu.Unlock()
		switch {
		case problem == nil:
			return answer, false
		case slices.Contains(reasons, problem.Reason):
			return nil, true
		case problem.Reason != "BACKEND_UNAVAILABLE":
			require.FailNow(t, "the call failed", "%s %v: %v", tool, args, problem)
		}
		require.Less(t, time.Since(start), recoveryTime, "%s %v is refused for too long: %v", tool, args, problem)
		<-time.After(500 * time.Millisecond) // the answer says that the caller should retry
	}
}

// pollAgents calls list_agents again and again, and records how long that takes. Fleet must always answer, whatever happens to Coder.
func (c *chaosLoad) pollAgents(t *testing.T, ctx context.Context) { //nolint:revive // the test comes first
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	callers := []caller{c.server.callerOn("grpc"), c.server.callerOn("rest"), c.server.callerOn("mcp")}
	for i := 0; ctx.Err() == nil; i++ {
		start := time.Now()
		if _, problem := callers[i%3].try(t, "list_agents", object{}); problem != nil {
			t.Errorf("list_agents failed: %v", problem)
		}
		c.mu.Lock()
		c.listDurations = append(c.listDurations, time.Since(start))
		c.mu.Unlock()
		<-tick.C
	}
}

// pollConversations reads the agents' conversations again and again, bypassing the proxy, because a restart clears a conversation.
func (c *chaosLoad) pollConversations(t *testing.T, ctx context.Context) { //nolint:revive // the test comes first
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		c.readConversations(t)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// readConversations records the tagged messages in the agents' conversations.
func (c *chaosLoad) readConversations(t *testing.T) {
	for i := range chaosAgents {
		var all struct {
			Messages []struct{ Role, Content, Time string }
		}
		c.tryRequest(t, http.MethodGet, "/@"+c.user+"/"+c.prefix+agentName(i)+".main/apps/agentapi/messages", nil, &all)
		c.mu.Lock()
		for _, m := range all.Messages {
			if tag := tagOf(m.Content); m.Role == "user" && tag != "" {
				if c.prompts[tag] == nil {
					c.prompts[tag] = map[string]bool{}
				}
				c.prompts[tag][agentName(i)+" "+m.Time] = true
			}
		}
		c.mu.Unlock()
	}
}

// timesSent returns how often the agent received the prompt with the tag, as far as the test has seen.
func (c *chaosLoad) timesSent(tag string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(len(c.prompts[tag]), c.acceptedMessages[tag])
}

// waitForRecovery waits until Fleet has reached Coder again, and all agents are idle.
func (c *chaosLoad) waitForRecovery(t *testing.T) {
	calm := time.Now()
	within(t, recoveryTime, "Fleet has seen Coder again", func() bool {
		at, err := time.Parse(time.RFC3339, c.api().call(t, "list_agents", object{}).text("observed_at"))
		return err == nil && at.After(calm)
	})
	for i := range chaosAgents {
		c.waitUntilIdle(t, agentName(i))
	}
	c.readConversations(t)
}

// checkResults checks that each task of the load has ended as expected, that no prompt and no message was sent twice, and that none
// of a completed task is lost.
func (c *chaosLoad) checkResults(t *testing.T) {
	ended := map[string]int{}
	c.mu.Lock()
	tasks := c.tasks
	c.mu.Unlock()
	messages := 0
	for tag, e := range tasks {
		n := c.timesSent(tag)
		if n > 1 {
			t.Errorf("%s of %s was sent %d times", tag, e.agent, n)
		}
		if e.message {
			messages++
			if n == 0 {
				t.Errorf("the message %s to %s is lost", tag, e.agent)
			}
			continue
		}
		if e.id == "" {
			t.Errorf("%s of %s was never started", tag, e.agent)
			continue
		}
		now := object(c.api().call(t, "show_task", object{"task_id": e.id})["task"].(map[string]any))
		status := now.text("status")
		ended[status]++
		switch {
		case status == "pending" || status == "running":
			t.Errorf("%s of %s is lost: %v", tag, e.agent, now)
		case e.interrupted && status != "stopped":
			t.Errorf("%s of %s must be stopped: %v", tag, e.agent, now)
		case !e.interrupted && status != "completed":
			t.Errorf("%s of %s did not succeed: %v", tag, e.agent, now)
		case !e.interrupted && n != 1:
			t.Errorf("%s of %s completed, but was sent %d times", tag, e.agent, n)
		case e.withoutMessages && !strings.Contains(now.text("summary"), tag):
			t.Errorf("%s of %s has the summary of another task: %v", tag, e.agent, now)
		}
	}
	t.Logf("tasks               %d: %v; %d messages to tasks", len(tasks)-messages, ended, messages)
}

// fleetGoroutines counts the goroutines that run Fleet's code, except tests.
func fleetGoroutines(t *testing.T) (n int) {
	var b strings.Builder
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&b, 2))
	for stack := range strings.SplitSeq(b.String(), "\n\n") {
		if strings.Contains(stack, "fleet/internal/") && !strings.Contains(stack, "fleet/internal/app/e2e") {
			n++
		}
	}
	return n
}

// quantile sorts the durations, and returns the one that a part q of them does not exceed, rounded.
func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[int(q*float64(len(d)-1))].Round(10 * time.Microsecond)
}
