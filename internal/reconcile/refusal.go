package reconcile

import (
	"context"
	"errors"

	"fleet/internal/fleet"
)

// refusal returns the error if it means that the agent can never be made as requested: its name is taken at its host,
// or the host refuses a value. Then nothing exists that could be started again.
func refusal(err error) *fleet.Error {
	e, ok := errors.AsType[*fleet.Error](err)
	if !ok || e.Code != fleet.AlreadyExists && e.Code != fleet.InvalidArgument {
		return nil
	}
	return e
}

// refuse records that the host refused to make the agent: the agent is deleted and its name is free. Its creator is
// told the reason. If the desired state has changed meanwhile, that takes precedence.
func (w *worker) refuse(ctx context.Context, tried *fleet.Agent, e *fleet.Error) error {
	return w.change(ctx, fleet.EventAgentDeleted, func(a *fleet.Agent, tx fleet.Tx) (string, error) {
		if a.Desired != tried.Desired {
			return "", nil
		}
		if err := w.endActive(tx, a, fleet.TaskFailed, "its agent was not made: "+e.Message); err != nil {
			return "", err
		}
		a.State, a.StateReason, a.DeletedAt = fleet.StateDeleted, e.Message, w.now()
		a.Refused, a.RefusedField = e.Reason, e.Field
		if e.Field == "" {
			a.RefusedField = e.Metadata["field"]
		}
		return "agent not made: " + e.Message, nil
	})
}
