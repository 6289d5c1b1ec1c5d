package fleet

import (
	"context"
	"errors"
)

// refusal returns the error if it means that the agent can never be made as requested: its name is taken at its host,
// or the host refuses a value. Then nothing exists that could be started again.
func refusal(err error) *Error {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Code != AlreadyExists && e.Code != InvalidArgument {
		return nil
	}
	return e
}

// refuse records that the host refused to make the agent: the agent is deleted and its name is free. Its creator is
// told the reason. If the desired state has changed meanwhile, that takes precedence.
func (w *worker) refuse(ctx context.Context, tried *Agent, e *Error) error {
	return w.change(ctx, EventAgentDeleted, func(a *Agent, tx Tx) (string, error) {
		if a.Desired != tried.Desired {
			return "", nil
		}
		if err := w.endActive(tx, a.UID, TaskFailed, "its agent was not made: "+e.Message); err != nil {
			return "", err
		}
		a.State, a.StateReason, a.DeletedAt = StateDeleted, e.Message, w.now()
		a.Refused, a.RefusedField = e.Reason, e.Field
		if e.Field == "" {
			a.RefusedField = e.Metadata["field"]
		}
		return "agent not made: " + e.Message, nil
	})
}

// refusedError returns the error of a call for an agent that its host refused to make.
func refusedError(a *Agent) *Error {
	e := Errorf(a.Refused, "%s", a.StateReason).With("agent_name", a.Name)
	if a.RefusedField != "" {
		e = e.With("field", a.RefusedField)
		if e.Code == InvalidArgument {
			e.Field = a.RefusedField
		}
	}
	return e
}
