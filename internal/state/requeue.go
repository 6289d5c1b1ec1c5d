package state

import (
	"time"

	"fleet/internal/fleet"
)

// requeue makes a running task pending again, so that its next run continues the work. o is the outcome of the run that has ended.
// requeue writes the task, the agent, and an event with the text.
func requeue(tx fleet.Tx, a *fleet.Agent, t *fleet.Task, o fleet.Outcome, now time.Time, text string) error {
	if err := recordCredentialOutcome(tx, a, t, o, now); err != nil {
		return err
	}
	if err := keepFunds(tx, t, now); err != nil {
		return err
	}
	if t.Delegation.Conversation = ""; a.HasConversation { // otherwise the next run begins one
		t.Delegation.Conversation = a.Conversation
	}
	t.AddUsage(o)
	t.Status, t.StartedAt, t.DispatchedAt, t.Cursor, t.Try = fleet.TaskPending, time.Time{}, time.Time{}, "", t.Try+1
	t.StopRequestedAt, t.StopReason, t.StalledAt, t.LastStep, t.CollectingAt = time.Time{}, "", time.Time{}, "", time.Time{}
	if err := settleReservations(tx, t, now); err != nil {
		return err
	}
	if err := WithdrawQuestions(tx, t, now); err != nil {
		return err
	}
	if t.Delegation.Grant != nil {
		if err := RevokeAgentTokens(tx, a.UID, now); err != nil {
			return err
		}
	}
	a.UpdatedAt = now
	if err := tx.Update(a); err != nil {
		return err
	}
	if err := tx.Update(t); err != nil {
		return err
	}
	e := t.Event(fleet.EventTaskQueued, now, text)
	e.Status = string(t.Status)
	return tx.Append(e)
}
