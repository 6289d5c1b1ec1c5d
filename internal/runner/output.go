package runner

import (
	"context"
	"errors"

	"fleet/internal/fleet"
	"fleet/internal/place/agentfile"
)

// maxPage limits a page of raw output, in bytes.
const maxPage = 16 << 20

// Output implements fleet.Runner. It changes nothing, so it can also be called while the run is being dispatched.
func (a Agent) Output(ctx context.Context, r fleet.Run, offset int64, limit int) (fleet.OutputPage, error) {
	if err := ctx.Err(); err != nil {
		return fleet.OutputPage{}, err
	}
	run := a.home.run(r.TaskID)
	claim, err := run.Claim()
	switch {
	case errors.Is(err, agentfile.ErrReplaced): // the run was claimed, and the agent has replaced the claim's file
	case err != nil && !isMissing(err):
		return fleet.OutputPage{}, HostError("cannot read the run", err)
	case claim == nil || claim.Void:
		return fleet.OutputPage{}, a.noTaskError(r.TaskID)
	}
	exit, _ := run.Exit() // read before the output: a run that has started but not ended may not have its output file yet
	p, ok, err := run.Page("output", offset, int64(min(limit, maxPage)))
	switch {
	case err != nil:
		return fleet.OutputPage{}, HostError("cannot read the run's output", err)
	case !ok && exit != nil:
		return fleet.OutputPage{}, fleet.Errorf(fleet.ReasonOutputNotFound,
			"the output of the task %[2]s was removed: the agent %[1]q keeps only the output of its last %[3]d runs", a.name, r.TaskID, maxKeptRuns)
	}
	return fleet.OutputPage(p), nil
}
