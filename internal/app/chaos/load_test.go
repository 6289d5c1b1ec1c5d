package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/store/postgres"
	"fleet/internal/store/postgres/pgtest"
	"fleet/internal/store/sqlite"
)

// callTimeout is how long a caller waits for an answer.
const callTimeout = 2 * time.Second

// retryPause is how long a caller waits after a call without an answer.
const retryPause = 100 * time.Millisecond

// fleetUnderLoad is a group of servers on one store, with the load on them and its history.
type fleetUnderLoad struct {
	name      string
	servers   []*server
	tracesDir string      // a directory in which runs of local agents leave lines
	agents    []string    // the agents that exist during the whole test
	place     *fake.Place // the place that all servers share
	socket    string      // the path of the socket at which the test serves place
	limits    fleet.Limits
	history   *history
	watchers  []*watcher

	mu       sync.Mutex
	tagCount int
}

func newFleet(t *testing.T, name string, limits fleet.Limits) *fleetUnderLoad {
	dir := t.TempDir()
	socket := filepath.Join(dir, "shared.sock")
	return &fleetUnderLoad{name: name, tracesDir: dir, socket: socket, place: serveShared(t, socket), limits: limits, history: newHistory()}
}

// addServer adds a server to the fleet. The caller must start the server.
func (f *fleetUnderLoad) addServer(t *testing.T, name, data string) *server {
	s := newServer(t, name, data)
	s.shared, s.limits = f.socket, f.limits
	f.servers = append(f.servers, s)
	return s
}

// addServerOn adds a server that uses the database through links of its own. The caller must start the server.
func (f *fleetUnderLoad) addServerOn(t *testing.T, db *database, name, data string) *server {
	s := f.addServer(t, name, data)
	for address := range s.links {
		s.links[address] = pgtest.NewLink(t, func() string { return db.socket(address) })
	}
	s.store = urlThrough(s.name, s.links)
	return s
}

// onStores runs the test on three servers on Postgres, and on one on SQLite. Their names begin with the prefix. store is the store of the
// servers, opened again.
func onStores(t *testing.T, prefix string, limits fleet.Limits, test func(t *testing.T, f *fleetUnderLoad, store fleet.Store)) {
	run := func(t *testing.T, f *fleetUnderLoad, store fleet.Store, err error) {
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		test(t, f, store)
	}
	t.Run("Postgres", func(t *testing.T) {
		pgtest.SkipUnlessEnabled(t)
		db := newDatabase(t, false)
		f := newFleet(t, "Postgres", limits)
		for i := range 3 {
			f.addServerOn(t, db, fmt.Sprint(prefix, i+1), t.TempDir())
		}
		f.start(t)
		store, err := postgres.Open(t.Context(), db.primary().URL("postgres"), postgres.Config{})
		run(t, f, store, err)
	})
	t.Run("SQLite", func(t *testing.T) {
		f := newFleet(t, "SQLite", limits)
		data := t.TempDir()
		f.addServer(t, prefix+"-sqlite", data)
		f.start(t)
		store, err := sqlite.Open(t.Context(), filepath.Join(data, "fleet.db"), sqlite.Config{})
		run(t, f, store, err)
	})
}

// start starts the servers and waits until they answer.
func (f *fleetUnderLoad) start(t *testing.T) {
	for _, s := range f.servers {
		s.startServing(t)
	}
}

// script returns the description of a task for the agent. A task of a local agent writes a line for each run, and another line if
// an earlier run is still active: a process of that run holds the lock. Pids would not show that, because each run has its own.
func (f *fleetUnderLoad) script(agent, tag string, work time.Duration) string {
	if f.isShared(agent) {
		return fmt.Sprintf("echo tag=%s\nwork %s\necho more\ndone well", tag, work)
	}
	base := filepath.Join(f.tracesDir, agent)
	return fmt.Sprintf(`echo tag=%[1]s
exec 9>>%[2]s.lock
flock -n 9 || echo "overlap %[1]s" >>%[2]s.runs
echo "run %[1]s" >>%[2]s.runs
sleep %.2[3]f
echo more`, tag, base, work.Seconds())
}

// randomTarget returns a random server and a random face.
func (f *fleetUnderLoad) randomTarget(r *rand.Rand) (*server, face) {
	return f.servers[r.IntN(len(f.servers))], faces[r.IntN(len(faces))]
}

// callAgent is a caller that calls random methods for the agent until ctx is done.
func (f *fleetUnderLoad) callAgent(ctx context.Context, client int, agent string, r *rand.Rand) {
	for ctx.Err() == nil {
		switch n := r.IntN(100); {
		case n < 35:
			f.startTask(client, agent, r)
		case n < 45:
			f.stopTask(client, agent, r)
		case n < 50 && f.isShared(agent): // often the agent has no task that could receive the message
			f.sendMessage(agent, r)
		case n < 80:
			f.showAgent(client, agent, r)
		default:
			f.waitTask(client, agent, r)
		}
		pause(ctx, time.Duration(r.IntN(150))*time.Millisecond)
	}
}

// newTag returns a text that begins with kind and that no other call returns.
func (f *fleetUnderLoad) newTag(kind string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tagCount++
	return fmt.Sprintf("%s%06d", kind, f.tagCount)
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// startTask tries to start a task, and records the outcome. While the outcome is unknown, it mostly repeats the request, perhaps
// at another server.
func (f *fleetUnderLoad) startTask(client int, agent string, r *rand.Rand) {
	h, tag := f.history, f.newTag("t")
	a := &attempt{agent: agent, call: h.now()}
	h.mu.Lock()
	h.attempts[tag] = a
	h.mu.Unlock()
	request := &fleetv1.StartAgentTaskRequest{
		AgentName: agent, RequestId: tag, TaskDescription: f.script(agent, tag, time.Duration(50+r.IntN(600))*time.Millisecond),
	}
	for try := 1; ; try++ {
		answer := &fleetv1.StartAgentTaskResponse{}
		err := f.call(r, "StartAgentTask", request, answer)
		ret := h.now()
		switch reason := reasonOf(err); {
		case err == nil:
			h.mu.Lock()
			a.task = answer.GetTask().GetId()
			h.mu.Unlock()
			h.addOperation(client, action{agent, verbStarted, answer.GetTask().GetId()}, a.call, ret)
			if f.isShared(agent) && r.IntN(2) == 0 { // tasks of the shell cannot receive messages
				f.sendMessage(agent, r)
			}
			return
		case reason != "" && try == 1:
			h.mu.Lock()
			a.refused = true
			h.mu.Unlock()
			if reason == "AGENT_BUSY" {
				h.addOperation(client, action{agent, verbBusy, ""}, a.call, ret)
			}
			return
		case reason != "", try == 4, r.IntN(4) == 0:
			return // the store shows the outcome at the end
		}
	}
}

// stopTask stops the agent's task, if it has one.
func (f *fleetUnderLoad) stopTask(client int, agent string, r *rand.Rand) {
	h := f.history
	call := h.now()
	answer := &fleetv1.StopAgentTaskResponse{}
	err := f.call(r, "StopAgentTask", &fleetv1.StopAgentTaskRequest{AgentName: agent}, answer)
	switch ret := h.now(); {
	case err == nil:
		task := answer.GetTask()
		h.addOperation(client, action{agent, verbStopped, task.GetId()}, call, ret)
		h.recordTask(task.GetId(), task.GetStatus().String(), ret)
	case reasonOf(err) == "NO_RUNNING_TASK":
		h.addOperation(client, action{agent, verbIdle, ""}, call, ret)
	}
}

// showAgent reads the agent, and records which task it has.
func (f *fleetUnderLoad) showAgent(client int, agent string, r *rand.Rand) {
	h := f.history
	call := h.now()
	answer := &fleetv1.ShowAgentResponse{}
	if err := f.call(r, "ShowAgent", &fleetv1.ShowAgentRequest{AgentName: agent}, answer); err == nil {
		task := answer.GetAgent().GetCurrentTaskId().GetValue()
		ret := h.now()
		h.addOperation(client, action{agent, verbSeen, task}, call, ret)
		h.recordTask(task, "running", ret)
	}
}

// waitTask waits up to two seconds for the end of the agent's task, and records the task's status. It does nothing if the
// agent has no task.
func (f *fleetUnderLoad) waitTask(client int, agent string, r *rand.Rand) {
	h := f.history
	answer := &fleetv1.ShowAgentResponse{}
	if err := f.call(r, "ShowAgent", &fleetv1.ShowAgentRequest{AgentName: agent}, answer); err != nil || answer.GetAgent().GetCurrentTaskId() == nil {
		return
	}
	task := answer.GetAgent().GetCurrentTaskId().GetValue()
	waited := &fleetv1.WaitTasksResponse{}
	err := f.call(r, "WaitTasks", &fleetv1.WaitTasksRequest{TaskIds: []string{task}, TimeoutSeconds: new(int32(2))}, waited)
	if err == nil && len(waited.GetTasks()) == 1 {
		h.recordTask(task, waited.GetTasks()[0].GetStatus().String(), h.now())
	}
}

// call calls the method at a random server over a random face, and counts the outcome.
func (f *fleetUnderLoad) call(r *rand.Rand, method string, request, answer proto.Message) error {
	s, invoke := f.randomTarget(r)
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	err := invoke(ctx, s, method, request, answer)
	f.history.countCall(method, err)
	if _, ok := errors.AsType[*refusal](err); err != nil && !ok {
		time.Sleep(retryPause) // connections to a stopped server fail at once, and callers would only repeat such calls
	}
	return err
}

// createAgents creates two agents on the machine of each server, and some in the place that all servers share. They exist during
// the whole test.
func (f *fleetUnderLoad) createAgents(t *testing.T) {
	create := func(s *server, name, project string) {
		answer := mustCall(t, s, fleetv1.FleetServiceClient.CreateAgent, &fleetv1.CreateAgentRequest{Name: name, Project: project, Spec: "x", RequestId: name})
		require.Equal(t, fleetv1.Agent_idle, answer.GetAgent().GetStatus(), answer)
		f.agents = append(f.agents, name)
	}
	for i, s := range f.servers {
		for j := range 2 {
			create(s, fmt.Sprintf("own-%s-%d-%d", strings.ToLower(f.name), i, j), "shell")
		}
	}
	for i := range len(f.servers) + 1 {
		create(f.servers[i%len(f.servers)], fmt.Sprintf("%s%s-%d", sharedPrefix, strings.ToLower(f.name), i), fake.DefaultProjects()[0].Name)
	}
}

// settleTimeout is how long tasks and deletions may take to end after the last fault. It is shorter than the time limit
// of a test run, so that the other checks can still report what went wrong.
const settleTimeout = operationTimeout / 3

// settle waits until all servers answer, ends all contracts, and waits until all agents are idle.
func (f *fleetUnderLoad) settle(t *testing.T) {
	for _, s := range f.servers {
		s.requireServing(t)
	}
	ctx, cancel := context.WithTimeout(t.Context(), settleTimeout)
	defer cancel()
	f.settleContracts(ctx)
	for {
		answer := &fleetv1.ListAgentsResponse{}
		err := overGRPC(ctx, f.servers[0], "ListAgents", &fleetv1.ListAgentsRequest{}, answer)
		working := slices.DeleteFunc(answer.GetAgents(), func(a *fleetv1.AgentSummary) bool { return a.GetStatus() == fleetv1.Agent_idle })
		if err == nil && len(working) == 0 {
			return
		}
		pause(ctx, 100*time.Millisecond)
		if ctx.Err() != nil {
			f.history.addProblem("agents do not become idle: %v, %v", working, err)
			return
		}
	}
}
