package state

import (
	"time"

	"fleet/internal/fleet"
)

// maxChildren is the largest number of delegated tasks of one task that a query reads. Grants allow fewer.
const maxChildren = 10_000

// RequestStop requests the stop of a running task, and stops the tasks that it has delegated, except those that continue without it. It writes the task,
// and an event with the text. It does nothing if a stop was requested before. If a budget interrupts the task, it ends now instead of
// going on later.
func RequestStop(tx fleet.Tx, t *fleet.Task, reason, text string, now time.Time) error {
	if t.Stopping() {
		return nil
	}
	if !t.StopRequestedAt.IsZero() {
		r := *t.Spending.Reserve // a copy, because the old value may be shared
		r.Breach = ""
		t.Spending.Reserve = &r
	}
	t.StopRequestedAt, t.StopReason = now, reason
	if err := tx.Update(t); err != nil {
		return err
	}
	if err := tx.Append(t.Event(fleet.EventTaskStopping, now, text)); err != nil {
		return err
	}
	return stopChildren(tx, t, now)
}

// StopPending ends a pending task as stopped, with the reason. If the task has run on an agent with OneTask, StopPending requests the
// deletion of the agent.
func StopPending(tx fleet.Tx, t *fleet.Task, reason string, now time.Time) error {
	t.Status, t.Reason, t.EndedAt = fleet.TaskStopped, reason, now
	if t.Try > 0 {
		v, err := ReadAgentView(tx, t.AgentUID)
		if err == nil && v != nil && v.OneTask && v.Task == nil {
			err = releaseAgent(tx, &v.Agent, t, fleet.Outcome{}, now, nil)
		}
		if err != nil {
			return err
		}
	}
	return finishTask(tx, t, reason, now)
}

// stopChildren stops the tasks that the task has delegated, except the detached ones, which continue without it.
func stopChildren(tx fleet.Tx, t *fleet.Task, now time.Time) error {
	if t.Delegation.Children == 0 {
		return nil
	}
	found, err := tx.FindTasks(fleet.TaskFilter{ParentID: t.ID, Active: true}, fleet.TaskWindow{Limit: maxChildren})
	if err != nil {
		return err
	}
	for _, row := range found.Tasks {
		c, err := tx.Task(row.ID) // whole, as it is written
		if err != nil {
			return err
		}
		why := "the task that delegated it has ended"
		if t.Active() {
			why = "the task that delegated it is being stopped"
		}
		switch {
		case c == nil || !c.Active() || c.Delegation.Detached:
		case c.Status == fleet.TaskPending:
			err = StopPending(tx, c, why, now)
		default:
			err = RequestStop(tx, c, why, why, now)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
