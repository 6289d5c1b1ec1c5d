package cli

import (
	"context"

	fleetv1 "fleet/gen/fleet/v1"
)

// withTask calls do with the task that ref names. ref is the id of the task, the beginning of the id, or the name of an agent, which
// stands for its newest task. For a name, do is called twice: the first call gets the name and fails with TASK_NOT_FOUND. So do
// must not print anything before it knows that the task exists, and must change nothing. A command that changes the task uses taskID.
func (s *session) withTask(ctx context.Context, ref string, do func(id string) error) error {
	err := do(ref)
	if reasonOf(err) != fleetv1.ErrorReason_TASK_NOT_FOUND.String() {
		return err
	}
	resp, listErr := s.fleet.ListTasks(ctx, &fleetv1.ListTasksRequest{AgentName: ref, LastAgent: true, PageSize: new(int32(1))})
	switch {
	case listErr != nil: // ref does not name an agent either
		return err
	case len(resp.GetTasks()) == 0:
		return Fail(ExitNotFound, "give it one: fleet task run "+ref+` "..." --follow`, "agent %q has no task yet", printable(ref))
	}
	return do(resp.GetTasks()[0].GetId())
}

// taskID returns the id of the task that ref names, as for withTask. A command that changes the task needs it, because the server refuses
// a second request with the same request id that names the task in another way.
func (s *session) taskID(ctx context.Context, ref string) (id string, err error) {
	err = s.withTask(ctx, ref, func(ref string) error {
		resp, err := s.fleet.ShowTask(ctx, &fleetv1.ShowTaskRequest{TaskId: ref})
		id = resp.GetTask().GetId()
		return err
	})
	return id, err
}
