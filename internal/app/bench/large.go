package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	fleetv1 "fleet/gen/fleet/v1"
)

// asked is the number of agents in one call of agent_status.
const asked = 50

// large measures a fleet with many agents: memory of idle agents, calls by many clients, and watchers.
func (r *report) large(ctx context.Context) (err error) {
	if !r.only.MatchString("large fleet") && !r.only.MatchString("agent_status") && !r.only.MatchString("start_agent_task") && !r.only.MatchString("watchers") {
		return nil
	}
	_, empty, err := r.memoryOf(ctx, 0)
	if err != nil {
		return err
	}
	t, full, err := r.memoryOf(ctx, r.agents)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	fmt.Fprintf(r.out, "\nA fleet with %d idle agents, and as many whose contracts have ended.\n", r.agents)
	r.goal("memory of an idle agent, bytes", "at most", 2048, (full-empty)/float64(r.agents))
	if err := r.watch(ctx, t); err != nil {
		return err
	}
	var next atomic.Int64
	contracts := fleetv1.NewLifecycleServiceClient(t.conn)
	for _, row := range []*row{
		{name: "agent_status", call: func(int) error {
			q := &fleetv1.AgentStatusRequest{}
			for range asked {
				q.AgentIds = append(q.AgentIds, contractID(rand.IntN(r.agents)))
			}
			s, err := contracts.AgentStatus(ctx, q)
			if err == nil && (len(s.GetAgents()) != asked || s.GetAgents()[0].Status == nil) {
				err = fmt.Errorf("an answer without the agents: %s", s)
			}
			return err
		}},
		{name: "start_agent_task", call: func(int) error {
			i := int(next.Add(1)) % r.agents // each agent has completed before its next turn
			_, err := t.fleet.StartAgentTask(ctx, &fleetv1.StartAgentTaskRequest{AgentName: agentName(i), TaskDescription: "Say hello."})
			return err
		}},
	} {
		got, err := r.measure(ctx, "calls", 2*r.clients, row)
		if err != nil {
			return err
		}
		if got[row.name] != nil {
			most := map[string]float64{"agent_status": 50, "start_agent_task": 100}[row.name]
			r.goal(fmt.Sprintf("%s, p99 ms, clients: %d", row.name, 2*r.clients), "at most", most, row.quantile(0.99))
		}
	}
	return nil
}

// memoryOf starts a server with that many agents, and returns its memory use.
func (r *report) memoryOf(ctx context.Context, agents int) (_ *testbed, used float64, err error) {
	t, err := newTestbed(ctx, agents)
	if err != nil {
		return nil, 0, err
	}
	before := memory()
	if err = t.serve(nil); err == nil {
		one := int32(1)
		_, err = t.fleet.ListAgents(ctx, &fleetv1.ListAgentsRequest{Limit: &one})
	}
	used = memory() - before
	if agents == 0 || err != nil {
		err = cmp.Or(err, t.close())
	}
	return t, used, err
}

// memory returns the memory use of this process in bytes, without short peaks.
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

// watch measures the delay of an event to all watchers, and the memory of a watcher.
func (r *report) watch(ctx context.Context, t *testbed) error {
	if !r.only.MatchString("watchers") {
		return nil
	}
	before := memory()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cursor, err := end(ctx, t.fleet)
	if err != nil {
		return err
	}
	type arrival struct {
		agent string
		at    time.Time
		err   error
	}
	arrived := make(chan arrival, r.watchers)
	const perConn = 100
	var conns []*grpc.ClientConn
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for i := range r.watchers {
		if i%perConn == 0 {
			c, err := dial(t.server.GRPCAddr())
			if err != nil {
				return err
			}
			conns = append(conns, c)
		}
		s, err := fleetv1.NewFleetServiceClient(conns[len(conns)-1]).WatchFleet(ctx, &fleetv1.WatchFleetRequest{Cursor: cursor, Follow: true})
		if err != nil {
			return err
		}
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
		begun := time.Now()
		name := agentName(i % r.agents)
		if _, err := t.fleet.StartAgent(ctx, &fleetv1.StartAgentRequest{AgentName: name}); err != nil { // it is running, so the only effect is an event
			return err
		}
		for n := 0; n < r.watchers; {
			a := <-arrived
			if a.err != nil {
				return a.err
			}
			if a.agent == name {
				n++
				took = append(took, a.at.Sub(begun))
			}
		}
		if i == 0 { // streams were opened meanwhile
			took = nil
			r.goal("memory of a watcher, both sides of its stream, bytes", "at most", 32<<10, (memory()-before)/float64(r.watchers))
		}
	}
	slices.Sort(took)
	at := func(q float64) float64 { return took[int(q*float64(len(took)-1))].Seconds() * 1e3 }
	fmt.Fprintf(r.out, "\n%d watchers, %d events: p50 %.1f ms, p99 %.1f ms from the call that makes an event to a watcher\n", r.watchers, r.events, at(0.5), at(0.99))
	r.goal(fmt.Sprintf("event to each of %d watchers, p99 ms from the call", r.watchers), "at most", 20, at(0.99))
	return nil
}

// end returns the cursor of the end of the log.
func end(ctx context.Context, client fleetv1.FleetServiceClient) (cursor string, err error) {
	s, err := client.WatchFleet(ctx, &fleetv1.WatchFleetRequest{Cursor: "now"})
	if err != nil {
		return "", err
	}
	for {
		m, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return cursor, nil
		}
		if err != nil {
			return "", err
		}
		cursor = m.GetCursor()
	}
}
