package runner

import (
	"context"
	"errors"
	"os"

	"fleet/internal/fleet"
	"fleet/internal/place/agentfile"
	"fleet/internal/runner/shim"
)

// Send implements fleet.Runner. A run of the shell driver reads the message as a line from the file that the variable FLEET_MESSAGES
// names.
func (a Agent) Send(ctx context.Context, r fleet.Run, id, message string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	run := a.home.run(r.TaskID)
	errEnded := fleet.Errorf(fleet.ReasonNoRunningTask, "the task of agent %q has ended: start another one", a.name)
	spec, err := run.Spec()
	switch {
	case isMissing(err), errors.Is(err, agentfile.ErrReplaced):
		return errEnded
	case err != nil:
		return HostError("cannot read the run", err)
	case !spec.ReadsMessages, r.Confirmed && !spec.ConfirmsMessages:
		return fleet.Errorf(fleet.ReasonUnimplemented,
			"the agent %q accepts no messages while it works: wait until its task ends, or stop the task; then start another task, which continues the conversation", a.name)
	}
	switch err := run.Message(ctx, id, message); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, shim.ErrEnded), os.IsNotExist(err): // the run has ended, or the supervisor does not listen yet
		c, err := run.Claim()
		var exit *shim.Exit
		if err == nil && c != nil && !c.Void {
			exit, err = run.Settle()
		}
		switch {
		case isMissing(err), c != nil && c.Void, exit != nil:
			return errEnded
		case err != nil:
			return HostError("cannot read the run's end", err)
		}
		return fleet.Errorf(fleet.ReasonBackendUnavailable, "the run's supervisor does not answer: try again")
	case errors.Is(err, shim.ErrNotRead):
		return fleet.Errorf(fleet.ReasonBackendUnavailable, "the task of agent %q does not read its messages, and too many of them are waiting: try again later", a.name)
	default:
		return HostError("cannot send the message", err)
	}
}
