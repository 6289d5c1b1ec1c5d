package reconcile

import (
	"context"
	"errors"

	"fleet/internal/fleet"
)

// refusal returns err if it means that the workspace can never be created as requested: the place refuses the name or
// another value. Otherwise it returns nil.
func refusal(err error) *fleet.Error {
	e, ok := errors.AsType[*fleet.Error](err)
	if !ok || e.Code != fleet.AlreadyExists && e.Code != fleet.InvalidArgument {
		return nil
	}
	return e
}

// recordRefusal records that the place refused to create the workspace of the agent. It deletes the agent, so that its name is free. The
// call that created the agent gets the reason. before is the agent when the operation began: recordRefusal does nothing if the desired
// state has changed since.
func (w *worker) recordRefusal(ctx context.Context, before *fleet.Agent, e *fleet.Error) error {
	return w.change(ctx, fleet.EventAgentDeleted, func(a *fleet.Agent, tx fleet.Tx) (string, error) {
		if a.Desired != before.Desired {
			return "", nil
		}
		if err := w.endRunningTask(tx, a, fleet.Outcome{Status: fleet.TaskFailed, Reason: "its agent was not created: " + e.Message}); err != nil {
			return "", err
		}
		a.State, a.StateReason, a.DeletedAt = fleet.StateDeleted, e.Message, w.now()
		a.RefusalReason, a.RefusalField = e.Reason, e.Field
		if e.Field == "" {
			a.RefusalField = e.Metadata["field"]
		}
		return "agent not created: " + e.Message, nil
	})
}
