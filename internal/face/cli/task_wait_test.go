package cli

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
)

func TestWaitCallsAgainUntilTheEnd(t *testing.T) {
	t.Parallel()
	s, server, _ := stubWithAgent(t)
	gate, open := newGate(t)
	mustRun(t, server, "task", "start", "papi", "read x < "+gate)
	var mu sync.Mutex
	var timeouts []int32
	s.beforeUnary = func(_ context.Context, _ string, req any) error {
		r, ok := req.(*fleetv1.WaitTasksRequest)
		if !ok {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		timeouts = append(timeouts, r.GetTimeoutSeconds())
		switch len(timeouts) {
		case 1:
			zero := int32(0) // as if the time limit had passed
			r.TimeoutSeconds = &zero
		case 2:
			open()
		}
		return nil
	}
	out, _ := mustRun(t, server, "task", "wait", "--agent", "papi")
	require.Contains(t, out, " completed ")
	require.Equal(t, []int32{50, 50}, timeouts)
}

func TestWaitForMoreTasksThanACallTakes(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	var mu sync.Mutex
	var sizes []int
	s.beforeUnary = func(_ context.Context, _ string, req any) error {
		if r, ok := req.(*fleetv1.WaitTasksRequest); ok {
			mu.Lock()
			defer mu.Unlock()
			sizes = append(sizes, len(r.GetTaskIds()))
		}
		return nil
	}
	server, _ := s.listen(t, "")
	args := []string{"task", "wait", "-q"}
	for i := range 250 {
		id := fmt.Sprintf("t-%03d", i)
		st := fleetv1.Task_completed
		if i == 7 {
			st = fleetv1.Task_stopped
		}
		if i == 120 {
			st = fleetv1.Task_failed
		}
		s.tasks = append(s.tasks, &fleetv1.TaskDetail{Id: id, AgentName: "papi", Status: st})
		args = append(args, id)
	}
	out, line, code := runFleet(server, args...)
	require.Equal(t, ExitFailed, code)
	require.Equal(t, []int{100, 100, 50}, sizes)
	require.Equal(t, 250*len("t-000\n"), len(out))
	require.Contains(t, line, "the task t-120 of papi failed")

	_, line, code = runFleet(server, append(args, "--any")...)
	require.Equal(t, ExitUsage, code, line)
}

func TestWaitForAnAgentWithoutTasks(t *testing.T) {
	t.Parallel()
	_, server, _ := stubWithAgent(t)
	_, line, code := runFleet(server, "task", "wait", "--agent", "papi")
	require.Equal(t, ExitNotFound, code)
	require.Contains(t, line, "has had no task yet")
}

// TestWaitForTheTaskOfAnAgent checks that --agent means the task that the agent works on, or else its newest task.
func TestWaitForTheTaskOfAnAgent(t *testing.T) {
	t.Parallel()
	s, server, _ := stubWithAgent(t)
	s.tasks = []*fleetv1.TaskDetail{
		{Id: "t-1", AgentName: "papi", Status: fleetv1.Task_completed},
		{Id: "t-2", AgentName: "papi", Status: fleetv1.Task_running},
		{Id: "t-3", AgentName: "papi", Status: fleetv1.Task_pending},
	}
	for _, want := range []string{"t-2", "t-3"} {
		out, line, code := runFleet(server, "task", "wait", "--agent", "papi", "--timeout", "0", "-q")
		require.Equal(t, ExitTimeout, code, line)
		require.Equal(t, want+"\n", out)
		s.mu.Lock()
		s.tasks[1].Status = fleetv1.Task_completed
		s.mu.Unlock()
	}
}

// silentServer is a server that never answers WaitTasks.
type silentServer struct{ fleetv1.FleetServiceClient }

func (silentServer) WaitTasks(ctx context.Context, _ *fleetv1.WaitTasksRequest, _ ...grpc.CallOption) (*fleetv1.WaitTasksResponse, error) {
	<-ctx.Done()
	return nil, status.FromContextError(ctx.Err()).Err()
}

// TestWaitEndsWithItsTimeout checks that the wait ends soon after its deadline if the server does not answer.
func TestWaitEndsWithItsTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		w := taskWait{s: &session{program: &program{deps: Deps{Now: time.Now}}, fleet: silentServer{}}, deadline: started.Add(10 * time.Second)}
		_, err := w.waitForPart(t.Context(), []string{"t-1"})
		var f *failure
		require.ErrorAs(t, err, &f)
		require.Equal(t, "TIMED_OUT", f.reason)
		require.Equal(t, 10*time.Second+answerTime, time.Since(started))
	})
}
