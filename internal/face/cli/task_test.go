package cli

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// DeleteTask deletes the task.
func (s *stub) DeleteTask(_ context.Context, r *fleetv1.DeleteTaskRequest) (*fleetv1.DeleteTaskResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.task(r.GetTaskId()); err != nil {
		return nil, err
	}
	s.tasks = slices.DeleteFunc(s.tasks, func(t *fleetv1.TaskDetail) bool { return t.GetId() == r.GetTaskId() })
	return &fleetv1.DeleteTaskResponse{TaskId: r.GetTaskId(), Message: "Task deleted successfully"}, nil
}

// TestDeleteGoesOnAfterAnError checks that "task delete" deletes the tasks after one that cannot be deleted, and reports each error.
func TestDeleteGoesOnAfterAnError(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	s.tasks = []*fleetv1.TaskDetail{{Id: "t-2", Status: fleetv1.Task_completed}, {Id: "t-4", Status: fleetv1.Task_completed}}
	server, _ := s.listen(t, "")
	out, line, code := runFleet(server, "task", "delete", "t-1", "t-2", "t-3", "t-4", "-q")
	require.Equal(t, ExitNotFound, code)
	require.Equal(t, "t-2\nt-4\n", out)
	require.Contains(t, line, `task "t-1" not found`)
	require.Contains(t, line, `task "t-3" not found`)
}
