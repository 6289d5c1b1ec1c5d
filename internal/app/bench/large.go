package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	fleetv1 "fleet/gen/fleet/v1"
)

// asked is the number of agents in one request of agent_status.
const asked = 50

// large measures a fleet with many agents: memory of idle agents, watchers, and calls by many clients.
func (r *report) large(ctx context.Context) {
	if !r.selects("large fleet", "agent_status", "start_agent_task", "agent_start", "watchers") {
		return
	}
	t, empty := started(ctx, 0)
	t.close()
	t, full := started(ctx, r.agents)
	defer t.close()
	fmt.Fprintf(r.out, "\nA fleet with %d idle agents, and as many whose contracts have ended.\n", r.agents)
	r.goal("memory of an idle agent, bytes", "at most", 2048, (full-empty)/float64(r.agents))
	if r.selects("watchers") {
		memory, p99 := r.watch(ctx, t)
		r.goal("memory of a watcher, both sides of its stream, bytes", "at most", 32<<10, memory)
		r.goal(fmt.Sprintf("event to each of %d watchers, p99 ms from the call", r.watchers), "at most", 20, p99)
	}
	r.measure(ctx, "calls", 2*r.clients, &row{name: "agent_status", p99: 50, call: func(int) error {
		q := &fleetv1.AgentStatusRequest{}
		for range asked {
			q.AgentIds = append(q.AgentIds, contractID(rand.IntN(r.agents)))
		}
		s, err := t.contracts().AgentStatus(ctx, q)
		if err == nil && (len(s.GetAgents()) != asked || s.GetAgents()[0].Status == nil) {
			err = fmt.Errorf("an answer without the agents: %s", s)
		}
		return err
	}})
	for _, row := range r.starts(ctx, "", t) { // not in turns: the work that one row's calls begin would be measured with the other row
		r.measure(ctx, "calls", 2*r.clients, row)
	}
}

// starts returns two rows: one starts a task on an existing agent, the other starts a new agent for one task.
func (r *report) starts(ctx context.Context, suffix string, servers ...*testbed) []*row {
	var next atomic.Int64
	return []*row{
		{name: "start_agent_task" + suffix, p99: 100, call: func(client int) error {
			_, err := servers[client%len(servers)].startTask(ctx, int(next.Add(1))%r.agents) // each agent has completed its task before it gets the next one
			return err
		}},
		{name: "agent_start" + suffix, p99: 100, call: func(client int) error {
			_, err := servers[client%len(servers)].contracts().AgentStart(ctx, &fleetv1.AgentStartRequest{Contract: "Say hello."})
			return err
		}},
	}
}

// startTask starts a task on the agent and returns the id of the task.
func (t *testbed) startTask(ctx context.Context, agent int) (id string, err error) {
	started, err := t.fleet.StartAgentTask(ctx, &fleetv1.StartAgentTaskRequest{AgentName: agentName(agent), TaskDescription: "Say hello."})
	return started.GetTask().GetId(), err
}

func (t *testbed) contracts() fleetv1.LifecycleServiceClient {
	return fleetv1.NewLifecycleServiceClient(t.conn)
}

// started starts a server with that many agents, and returns how much memory the server uses, in bytes.
func started(ctx context.Context, agents int) (t *testbed, used float64) {
	t = newTestbed(ctx, "", agents)
	before := memory()
	check(t.serve(nil))
	must(t.fleet.ListAgents(ctx, &fleetv1.ListAgentsRequest{Limit: new(int32(1))}))
	return t, memory() - before
}

// memory returns the memory use of this process in bytes. It is the least of several measurements, so that short peaks
// do not count.
func memory() float64 {
	least := math.MaxFloat64
	for range 5 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		least = min(least, float64(m.HeapAlloc+m.StackInuse))
	}
	return least
}

// watch measures the memory of a watcher in bytes, and the 99th percentile of the time until an event of the first
// server reaches the watchers of all servers, in milliseconds.
func (r *report) watch(ctx context.Context, servers ...*testbed) (size, p99 float64) {
	before := memory()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type arrival struct {
		agent string
		at    time.Time
		err   error
	}
	arrived := make(chan arrival, r.watchers)
	var conn *grpc.ClientConn
	for cursor, i := end(ctx, servers[0].fleet), 0; i < r.watchers; i++ {
		if i%100 == 0 { // 100 streams share a connection
			c := must(dial(servers[i/100%len(servers)].server.GRPCAddr()))
			defer func() { _ = c.Close() }()
			conn = c
		}
		s := must(fleetv1.NewFleetServiceClient(conn).WatchFleet(ctx, &fleetv1.WatchFleetRequest{Cursor: cursor, Follow: true}))
		go func() {
			for {
				m, err := s.Recv()
				now := time.Now()
				if err != nil {
					arrived <- arrival{err: err}
					return
				}
				for _, e := range m.GetEvents() {
					arrived <- arrival{agent: e.GetAgentName(), at: now}
				}
			}
		}()
	}
	var took []time.Duration
	for i := range r.events + 1 {
		begun, name := time.Now(), agentName(i%r.agents)
		must(servers[0].fleet.StartAgent(ctx, &fleetv1.StartAgentRequest{AgentName: name})) // the agent runs already, so the only effect is an event
		for n := 0; n < r.watchers; {
			a := <-arrived
			check(a.err)
			if a.agent == name {
				n++
				took = append(took, a.at.Sub(begun))
			}
		}
		if i == 0 { // the first event does not count, since streams were still being opened
			took = nil
			size = (memory() - before) / float64(r.watchers)
		}
	}
	p99 = quantile(took, 0.99)
	fmt.Fprintf(r.out, "\n%d watchers of %d servers, %d events: p50 %.1f ms, p99 %.1f ms from the call that makes an event to a watcher\n", r.watchers, len(servers), r.events, quantile(took, 0.5), p99)
	return size, p99
}

// end returns the cursor at the end of the event log.
func end(ctx context.Context, client fleetv1.FleetServiceClient) (cursor string) {
	for s := must(client.WatchFleet(ctx, &fleetv1.WatchFleetRequest{Cursor: "now"})); ; {
		m, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return cursor
		}
		check(err)
		cursor = m.GetCursor()
	}
}
