package state

import (
	"fmt"
	"math/rand/v2"
	"time"

	"fleet/internal/fleet"
)

// QueueAgain makes a queued task pending again whose attempt failed for a reason that may pass. It returns false, and changes nothing, if
// the task must end. The transaction must have read the agent and the task.
func QueueAgain(tx fleet.Tx, a *fleet.Agent, t *fleet.Task, o fleet.Outcome, now time.Time) (bool, error) {
	if o.Status != fleet.TaskFailed || !t.StopAsked.IsZero() || o.ReasonCode.Retry() == fleet.RetryNever || !a.DeletedAt.IsZero() || a.Desired == fleet.DesiredDeleted {
		return false, nil
	}
	q, err := fleet.First(tx.Queue(fleet.QueueFilter{TaskIDs: []string{t.ID}}))
	if err != nil || q == nil || q.Entry.Direct {
		return false, err
	}
	e := &q.Entry
	attempt := fleet.Attempt{Try: t.Try, At: now, Code: o.ReasonCode, Reason: fleet.Shorten(o.Reason, fleet.MaxRowSummary)}
	if !e.Failed(attempt, o.RetryAt, rand.Float64()) { //nolint:gosec // to spread retries
		return false, nil
	}
	switch {
	case o.ReasonCode.Retry() == fleet.RetryForgets:
		a.Conversed, a.SessionID = false, ""
	default:
		converse(a, o)
	}
	a.UpdatedAt = now
	if err := tx.Update(a); err != nil {
		return false, err
	}
	if err := withdrawQuestions(tx, t, now); err != nil {
		return false, err
	}
	t.AddUsage(o)
	if err := settle(tx, t, now); err != nil {
		return false, err
	}
	t.Status, t.StartedAt, t.Dispatched, t.Cursor, t.Try = fleet.TaskPending, time.Time{}, time.Time{}, "", t.Try+1
	t.StalledAt, t.LastStep, t.CollectingAt = time.Time{}, "", time.Time{}
	if err := tx.Update(t); err != nil {
		return false, err
	}
	if err := tx.Put(t.ID, e); err != nil {
		return false, err
	}
	event := t.Event(fleet.EventTaskQueued, now, fmt.Sprintf("attempt %d failed (%s): %s; the next one begins after %s", attempt.Try+1, attempt.Code, attempt.Reason, e.RetryAt.UTC().Format(time.RFC3339)))
	event.Status = string(t.Status)
	return true, tx.Append(event)
}
