package cli

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// LandTasks puts the work of the tasks into the queue.
func (s *stub) LandTasks(_ context.Context, r *fleetv1.LandTasksRequest) (*fleetv1.LandTasksResponse, error) {
	resp := &fleetv1.LandTasksResponse{Message: "the tasks are in the queue"}
	for _, id := range r.GetTaskIds() {
		resp.Tasks = append(resp.Tasks, &fleetv1.LandedTask{TaskId: id, AgentName: "papi", Landing: &fleetv1.Landing{State: fleetv1.Landing_queued}})
	}
	return resp, nil
}

// TestLandWaitsForProgramsToo checks that "task land" with -o json waits, prints the final states, and fails if some work does not land.
func TestLandWaitsForProgramsToo(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	s.tasks = []*fleetv1.TaskDetail{
		{Id: "t-1", AgentName: "papi", Status: fleetv1.Task_completed, Landing: &fleetv1.Landing{State: fleetv1.Landing_queued}},
		{Id: "t-2", AgentName: "papi", Status: fleetv1.Task_completed, Landing: &fleetv1.Landing{State: fleetv1.Landing_conflict}},
	}
	s.beforeWatch = func(r *fleetv1.WatchFleetRequest) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.GetFollow() {
			s.tasks[0].Landing = &fleetv1.Landing{State: fleetv1.Landing_landed}
			s.addEvent(fleetv1.Event_task_landing, "papi", "t-1", "landed", "")
		}
		return nil
	}
	server, _ := s.listen(t, "")
	out, line, code := runFleet(server, "task", "land", "t-1", "t-2", "-o", "json")
	require.Equal(t, ExitError, code, line)
	var document struct {
		Message string
		Tasks   []struct{ Landing struct{ State string } }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &document), out)
	require.Equal(t, "The work of 1 of 2 tasks has landed", document.Message)
	require.Len(t, document.Tasks, 2)
	require.Equal(t, "landed", document.Tasks[0].Landing.State)
	require.Equal(t, "conflict", document.Tasks[1].Landing.State)

	out, _ = mustRun(t, server, "task", "land", "t-1", "-o", "json", "--no-wait")
	require.Contains(t, out, `"state": "queued"`)
}

// TestLandFailsIfATaskIsGone checks that the command does not wait forever for a task that was deleted while the stream of events ended.
func TestLandFailsIfATaskIsGone(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	s.tasks = []*fleetv1.TaskDetail{{Id: "t-1", AgentName: "papi", Status: fleetv1.Task_completed, Landing: &fleetv1.Landing{State: fleetv1.Landing_queued}}}
	s.beforeWatch = func(r *fleetv1.WatchFleetRequest) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !r.GetFollow() {
			return nil
		}
		s.tasks = nil
		return errEndEarly
	}
	server, _ := s.listen(t, "")
	c := newCommand(server)
	require.Equal(t, ExitNotFound, waitForExit(t, c.start("task", "land", "t-1")), c.stderr.String())
}
