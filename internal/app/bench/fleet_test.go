package bench

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
)

// BenchmarkFleet measures a server with many agents on SQLite: its memory, and calls by many clients.
func BenchmarkFleet(b *testing.B) {
	const d = time.Second / 4
	agents, clients := fullOrSmall(10_000, 20), fullOrSmall(64, 4)
	t := newFleet(b, "", agents, fleet.LocalPrincipal)
	b.Run("memory", func(b *testing.B) {
		empty := newTestbed(b, "")
		bytesUsed := eachIteration(b, func(int) float64 { return t.serverMemory(b) - empty.serverMemory(b) })
		report(b, quantile(bytesUsed, 0.5)/float64(agents), "B/agent", "at most", 2048)
	})
	l := &load{agents: agents, servers: []*server{t.serve(b, nil)}}
	b.Run("watchers", func(b *testing.B) { l.watch(b, 20) })
	compare(b, d, row{name: "agent_status", maxP99Millis: 50, measure: repeat(clients, l.agentStatus(b))})
	compare(b, d, row{name: "start_agent_task", maxP99Millis: 100, measure: repeat(clients, l.startTask(b))})
	compare(b, d, row{name: "agent_start", maxP99Millis: 100, measure: repeat(clients, l.startAgent(b))})
}

// serverMemory returns the memory in bytes that a server on the testbed uses.
func (t *testbed) serverMemory(b *testing.B) float64 {
	before := memoryInUse()
	s := t.serve(b, nil)
	defer s.stop()
	_, err := s.ListAgents(b.Context(), &fleetv1.ListAgentsRequest{Limit: new(int32(1))})
	require.NoError(b, err)
	return memoryInUse() - before
}

// load makes calls to servers that share a fleet.
type load struct {
	servers   []*server
	agents    int
	taskCount atomic.Int64 // an agent has completed its task before it gets the next one
}

// server returns the server that the client calls.
func (l *load) server(client int) *server { return l.servers[client%len(l.servers)] }

// agentStatus returns a call that reads the status of agents whose contracts have ended.
func (l *load) agentStatus(b *testing.B) func(client int) error {
	const batch = 50 // agents in one request
	return func(client int) error {
		q := &fleetv1.AgentStatusRequest{}
		for range batch {
			q.AgentIds = append(q.AgentIds, contractID(rand.IntN(l.agents)))
		}
		answer, err := fleetv1.NewLifecycleServiceClient(l.server(client).conn).AgentStatus(b.Context(), q)
		if err == nil && (len(answer.GetAgents()) != batch || answer.GetAgents()[0].Status == nil) {
			err = fmt.Errorf("an answer without the agents: %s", answer)
		}
		return err
	}
}

// startTask returns a call that starts a task on an existing agent.
func (l *load) startTask(b *testing.B) func(client int) error {
	return func(client int) error {
		_, err := l.startNextTask(b, client)
		return err
	}
}

// runTask returns a call that starts a task on an existing agent, and waits until the task has ended.
func (l *load) runTask(b *testing.B) func(client int) error {
	return func(client int) error {
		task, err := l.startNextTask(b, client)
		if err == nil {
			_, err = l.server(client).WaitTasks(b.Context(), &fleetv1.WaitTasksRequest{TaskIds: []string{task}})
		}
		return err
	}
}

// startNextTask starts a task on the agent whose turn it is, and returns the id of the task.
func (l *load) startNextTask(b *testing.B, client int) (id string, err error) {
	return l.server(client).startTask(b.Context(), int(l.taskCount.Add(1))%l.agents, "Say hello.")
}

// queueTask returns a call that queues a held task.
func (l *load) queueTask(b *testing.B) func(client int) error {
	return func(client int) error {
		_, err := l.server(client).QueueTask(b.Context(), &fleetv1.QueueTaskRequest{AgentName: agentName(int(l.taskCount.Add(1)) % l.agents), TaskDescription: "Say hello.", Hold: true})
		return err
	}
}

// startAgent returns a call that starts a new agent for one task.
func (l *load) startAgent(b *testing.B) func(client int) error {
	return func(client int) error {
		_, err := fleetv1.NewLifecycleServiceClient(l.server(client).conn).AgentStart(b.Context(), &fleetv1.AgentStartRequest{Contract: "Say hello."})
		return err
	}
}

// watch measures how much memory a watcher needs, on both sides of its stream. It also measures the time from a call to the first
// server, which makes an event, until each watcher of all servers has the event. goal is the largest p99 in milliseconds.
func (l *load) watch(b *testing.B, goal float64) {
	type arrival struct {
		agent string
		at    time.Time
		err   error
	}
	watchers := fullOrSmall(1000, 3)
	arrivals := make(chan arrival, watchers)
	before, cursor := memoryInUse(), l.cursor(b)
	var conn *grpc.ClientConn
	for i := range watchers {
		if i%100 == 0 { // 100 streams share a connection
			conn = dial(b, l.server(i/100).GRPCAddr())
		}
		s, err := fleetv1.NewFleetServiceClient(conn).WatchFleet(b.Context(), &fleetv1.WatchFleetRequest{Cursor: cursor, Follow: true})
		require.NoError(b, err)
		go func() {
			for {
				m, err := s.Recv()
				now := time.Now()
				if err != nil {
					arrivals <- arrival{err: err}
					return
				}
				for _, e := range m.GetEvents() {
					arrivals <- arrival{agent: e.GetAgentName(), at: now}
				}
			}
		}()
	}
	event := func(i int) (durations []float64) {
		start, name := time.Now(), agentName(i%l.agents)
		_, err := l.servers[0].StartAgent(b.Context(), &fleetv1.StartAgentRequest{AgentName: name}) // the agent runs already, so the only effect is an event
		require.NoError(b, err)
		for len(durations) < watchers {
			a := <-arrivals
			require.NoError(b, a.err)
			if a.agent == name {
				durations = append(durations, a.at.Sub(start).Seconds()*1000)
			}
		}
		return durations
	}
	event(l.agents - 1) // does not count, since streams are still being opened
	used := memoryInUse() - before
	durations := slices.Concat(eachIteration(b, event)...)
	report(b, quantile(durations, 0.5), "p50-ms", "", 0)
	report(b, quantile(durations, 0.99), "p99-ms", "at most", goal)
	report(b, used/float64(watchers), "B/watcher", "at most", 32<<10)
}

// cursor returns the cursor at the end of the event log.
func (l *load) cursor(b *testing.B) (cursor string) {
	events, err := l.servers[0].WatchFleet(b.Context(), &fleetv1.WatchFleetRequest{Cursor: "now"})
	require.NoError(b, err)
	for {
		m, err := events.Recv()
		if errors.Is(err, io.EOF) {
			return cursor
		}
		require.NoError(b, err)
		cursor = m.GetCursor()
	}
}
