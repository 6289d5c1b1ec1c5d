package chaos

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/place/fake"
)

// bulkFleet is a fleet whose servers are killed while they run a plan.
type bulkFleet struct {
	*fleetUnderLoad
	store            fleet.Store
	serverIndex      atomic.Int32 // of the server that runs the plan
	interruptedCalls int          // calls that were interrupted by the end of a server
}

// TestChaosBulk queues a task for each of many agents, and then stops all agents. During each plan, the server that runs it is
// killed three times: one of three servers on Postgres, and the only one on SQLite. Each agent must get one task and be
// stopped once. The results must be what the plan says, or name the difference. Agents differ from the plan if they are
// deleted, or begin a task, between the plan and the run. With CHAOS, there are 5,000 agents.
func TestChaosBulk(t *testing.T) {
	count := 60
	if os.Getenv("CHAOS") != "" {
		count = 5000
	}
	limits := fleet.Limits{Agents: 2 * count, RunningTasks: 2 * count}
	onStores(t, "b", limits, func(t *testing.T, f *fleetUnderLoad, store fleet.Store) {
		testBulk(t, &bulkFleet{fleetUnderLoad: f, store: store}, count)
	})
}

func testBulk(t *testing.T, f *bulkFleet, count int) {
	f.create(t, count)

	queue := f.plan(t, &fleetv1.PlanBulkRequest{Operation: fleetv1.PlanBulkRequest_queue, All: true, Text: "done", Labels: map[string]string{"batch": "b1"}})
	queued := f.run(t, queue, count, "is queued", isCreated)
	require.EqualValues(t, count, queued.GetDoneCount(), queued.GetMessage())
	tasks := map[string]string{} // by agent
	for _, i := range queued.GetItems() {
		tasks[i.GetAgentName()] = i.GetTaskId()
	}
	for _, e := range f.events(t, isCreated) {
		require.Equal(t, tasks[e.AgentName], e.TaskID, "the agent %s has another task than the result says, or two", e.AgentName)
		delete(tasks, e.AgentName)
	}
	require.Empty(t, tasks, "the results name tasks that do not exist")
	f.awaitQueue(t, 0, time.Duration(count)*100*time.Millisecond+operationTimeout)
	f.settle(t)

	stop := f.plan(t, &fleetv1.PlanBulkRequest{Operation: fleetv1.PlanBulkRequest_stop, All: true})
	wantReasons := map[string]string{} // reasons by agent
	for i, item := range stop.GetItems()[:6] {
		name := item.GetAgentName()
		if i%2 == 0 {
			wantReasons[name] = "AGENT_NOT_FOUND"
			mustCall(t, f.servers[0], fleetv1.FleetServiceClient.DeleteAgent, &fleetv1.DeleteAgentRequest{AgentName: name})
			continue
		}
		wantReasons[name] = "PLAN_OUTDATED"
		mustCall(t, f.servers[0], fleetv1.FleetServiceClient.StartAgentTask, &fleetv1.StartAgentTaskRequest{AgentName: name, TaskDescription: "wait for-ever"})
	}
	stopped := f.run(t, stop, count-len(wantReasons), "is stopped", isStopRequest)
	want := map[string]bool{}
	for _, i := range stopped.GetItems() {
		require.Equal(t, wantReasons[i.GetAgentName()], i.GetReason(), i)
		if i.GetOutcome() == fleetv1.BulkItem_done {
			want[i.GetAgentName()] = true
		}
	}
	require.Len(t, want, count-len(wantReasons))
	for _, e := range f.events(t, isStopRequest) {
		require.True(t, want[e.AgentName], "%s is stopped twice, or the result does not say that it is stopped", e.AgentName)
		delete(want, e.AgentName)
	}
	require.Empty(t, want, "the results say that these agents are stopped, but no event does")
	for _, a := range mustCall(t, f.servers[0], fleetv1.FleetServiceClient.ListAgents, &fleetv1.ListAgentsRequest{}).GetAgents() {
		require.Equal(t, wantReasons[a.GetName()] == "PLAN_OUTDATED", a.GetState() == fleetv1.Agent_running, a)
	}
	require.Positive(t, f.interruptedCalls, "no call was interrupted")
}

func (f *bulkFleet) create(t *testing.T, count int) {
	t.Helper()
	began := time.Now()
	var all errgroup.Group
	all.SetLimit(24)
	for i := range count {
		all.Go(func() error {
			name := fmt.Sprintf("%s%05d", sharedPrefix, i)
			return overGRPC(t.Context(), f.servers[i%len(f.servers)], "CreateAgent", &fleetv1.CreateAgentRequest{Name: name, Project: fake.DefaultProjects()[0].Name, Spec: "x", RequestId: name}, &fleetv1.CreateAgentResponse{})
		})
	}
	require.NoError(t, all.Wait())
	t.Logf("%d agents were created in %s", count, time.Since(began).Round(time.Millisecond))
}

func (f *bulkFleet) plan(t *testing.T, request *fleetv1.PlanBulkRequest) *fleetv1.PlanBulkResponse {
	t.Helper()
	began := time.Now()
	plan := mustCall(t, f.servers[0], fleetv1.FleetServiceClient.PlanBulk, request)
	require.Zero(t, plan.GetRefusedCount()+plan.GetUnchangedCount(), plan.GetMessage())
	t.Logf("the plan of %d was made in %s", plan.GetTotalCount(), time.Since(began).Round(time.Millisecond))
	return plan
}

// run runs the plan until it is finished. effects is the number of events of the plan for which match returns true. When a quarter, a half
// and three quarters of them are in the event log, run kills the server that runs the plan. At the end, all servers must give the same
// answer. what describes the effect of the plan on an agent, for the log.
func (f *bulkFleet) run(t *testing.T, plan *fleetv1.PlanBulkResponse, effects int, what string, match func(*fleet.Event) bool) *fleetv1.RunBulkResponse {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	killed := make(chan int, 1)
	go func() { killed <- f.killMidway(ctx, t, effects, match) }()
	began := time.Now()
	deadline := began.Add(time.Duration(effects)*100*time.Millisecond + operationTimeout)
	request := &fleetv1.RunBulkRequest{PlanId: plan.GetPlanId(), WaitSeconds: new(int32(5))}
	answer := &fleetv1.RunBulkResponse{}
	for {
		require.Less(t, time.Now(), deadline, answer.GetMessage())
		s := f.servers[int(f.serverIndex.Load())%len(f.servers)]
		answer.Reset()
		if err := overGRPC(ctx, s, "RunBulk", request, answer); err != nil {
			require.Empty(t, reasonOf(err), "%s", err)
			f.interruptedCalls++
			f.serverIndex.Add(1)
			pause(ctx, retryPause)
			continue
		}
		if !answer.GetUnfinished() {
			break
		}
	}
	cancel()
	t.Logf("of %d agents, each %s: %s, after %s with %d kills", plan.GetTotalCount(), what, answer.GetMessage(), time.Since(began).Round(time.Millisecond), <-killed)
	require.Len(t, answer.GetItems(), int(plan.GetTotalCount()))
	for _, s := range f.servers {
		s.requireServing(t)
		again := mustCall(t, s, fleetv1.FleetServiceClient.RunBulk, request)
		require.True(t, proto.Equal(answer, again), "%s gives another answer", s.name)
	}
	return answer
}

// killMidway kills the server that runs the plan three times, and starts it again each time. It returns the number of kills, which is
// lower if ctx ends before.
func (f *bulkFleet) killMidway(ctx context.Context, t *testing.T, effects int, match func(*fleet.Event) bool) (kills int) {
	for kills < 3 {
		if len(f.events(t, match)) < effects*(kills+1)/4 { // polled, because the signals of the store may come a second after the commits of other processes
			if pause(ctx, 5*time.Millisecond); ctx.Err() != nil {
				return kills
			}
			continue
		}
		s := f.servers[int(f.serverIndex.Load())%len(f.servers)]
		s.Kill()
		kills++
		if err := s.Start(0); err != nil {
			t.Error(err)
			return kills
		}
	}
	return kills
}

func isCreated(e *fleet.Event) bool { return e.Type == fleet.EventTaskCreated }

func isStopRequest(e *fleet.Event) bool {
	return e.Type == fleet.EventAgentChanged && e.Text == "stop requested"
}

// events returns the events that match, in the order of the log.
func (f *bulkFleet) events(t *testing.T, match func(*fleet.Event) bool) (found []fleet.Event) {
	t.Helper()
	all, err := eventsOf(f.store, fleet.EventTaskCreated, fleet.EventAgentChanged)
	if err != nil {
		t.Error(err)
	}
	for i := range all {
		if match(&all[i]) {
			found = append(found, all[i])
		}
	}
	return found
}
