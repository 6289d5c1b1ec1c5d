package service

import (
	"context"
	"fmt"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// RaiseTaskBudget sets the maximum total cost of a task that has not ended, in US dollars. A task that waits because it has used up
// its own limit goes on. The budgets that an admin has set still apply.
func (s *Service) RaiseTaskBudget(ctx context.Context, id string, usd float64, requestID string) (*fleet.Task, error) {
	if id == "" {
		return nil, errNoTaskID()
	}
	if err := (fleet.TaskOptions{MaxCostUSD: &usd}).Validate(); err != nil {
		return nil, err
	}
	c := Call{Method: "RaiseTaskBudget", RequestID: requestID, Body: []any{id, usd}}
	return s.changeTask(ctx, c, id, func(tx fleet.Tx, p fleet.Principal, t *fleet.Task) (*fleet.Task, error) {
		if t.Status == fleet.TaskPending { // nobody needs to answer whether the task goes on
			if err := state.WithdrawQuestions(tx, t, s.now()); err != nil {
				return nil, err
			}
		}
		return t, s.raiseLimit(tx, p, t, fleet.MicrosOf(usd), fleet.OptionMaxCost)
	})
}

// raiseLimit sets the maximum total cost of the task, and writes the task. The error is TASK_NOT_PENDING if the task has ended, and
// INVALID_ARGUMENT if the task has used so much already, or has given it to tasks that it has delegated. field is the request's field
// with the limit.
func (s *Service) raiseLimit(tx fleet.Tx, p fleet.Principal, t *fleet.Task, limit fleet.Micros, field string) error {
	switch used, given := t.Used().Micros, t.Delegation.GivenToChildren; {
	case t.Status.Ended():
		return fleet.Errorf(fleet.ReasonTaskNotPending, "task %q is %s, so it costs nothing more", t.ID, t.Status).
			With("task_id", t.ID).With("agent_name", t.AgentName).Next("{retry_task} starts it again")
	case limit <= used:
		return fleet.InvalidField(field, "%s is %s, and the task has already used %s: give more", field, limit, used)
	case limit <= used+given:
		return fleet.InvalidField(field, "%s is %s, and the task has already used %s and given %s to tasks that it has delegated: give more", field, limit, used, given)
	}
	if err := state.LimitReservation(tx, t, limit, s.now()); err != nil {
		return err
	}
	t.Options.MaxCostUSD = new(limit.USD())
	if err := tx.Update(t); err != nil {
		return err
	}
	return tx.Append(t.Event(fleet.EventTaskQueued, s.now(), fmt.Sprintf("it may cost %s, says %s", limit, p.Name)))
}

// actOnBudgetAnswer applies the principal's answer to the question whether the task goes on.
func (s *Service) actOnBudgetAnswer(tx fleet.Tx, p fleet.Principal, t *fleet.Task, answer fleet.BudgetAnswer) error {
	switch {
	case answer.Stop:
		return state.StopPending(tx, t, stopReason(p), s.now())
	case answer.Limit > 0:
		return s.raiseLimit(tx, p, t, answer.Limit, "answer")
	}
	if err := tx.Update(t); err != nil {
		return err
	}
	return tx.Append(t.Event(fleet.EventTaskQueued, s.now(), fmt.Sprintf("it goes on when there is money, says %s", p.Name)))
}
