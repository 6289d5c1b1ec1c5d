package cli

import (
	"context"
	"regexp"

	fleetv1 "fleet/gen/fleet/v1"
)

// taskID matches ids of tasks and the beginnings that tables show.
var taskID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f-]*)?$`)

// taskOf returns the id of the task that the argument names: by its id or the beginning of it, or by an agent, of which it is the newest
// task.
func (s *session) taskOf(ctx context.Context, ref string) (string, error) {
	if taskID.MatchString(ref) {
		return ref, nil
	}
	resp, err := s.fleet.ListTasks(ctx, &fleetv1.ListTasksRequest{AgentName: ref, LastAgent: true, PageSize: new(int32(1))})
	switch {
	case reasonOf(err) == fleetv1.ErrorReason_AGENT_NOT_FOUND.String(): // it may be a shorter beginning of an id
		return ref, nil
	case err != nil:
		return "", err
	case len(resp.GetTasks()) == 0:
		return "", Fail(ExitNotFound, "give it one: fleet task run "+ref+` "..." --follow`, "agent %q has no task yet", printable(ref))
	}
	return resp.GetTasks()[0].GetId(), nil
}
