package state

import (
	"time"

	"fleet/internal/fleet"
)

// RecordLanding records the task's changes as work that can land. If the task continues the work of an earlier task, the new work
// replaces the earlier work: it has the same base, and it lands without a new request if somebody has requested the landing of the
// earlier work.
func RecordLanding(tx fleet.Tx, a *fleet.Agent, t *fleet.Task, c *fleet.Changes, now time.Time) error {
	l := fleet.NewLanding(a, t, c)
	if l == nil {
		return nil
	}
	old, err := fleet.First(tx.Landings(fleet.LandingFilter{TaskIDs: []string{t.ID}}))
	if err != nil {
		return err
	}
	if old != nil { // the worktree was examined again
		if old.State.Settled() || old.Candidate != "" || old.Head == l.Head {
			return nil
		}
		old.Head, old.Branch, old.FileCount, old.Insertions, old.Deletions, old.EvidenceAt, old.UpdatedAt = l.Head, l.Branch, l.FileCount, l.Insertions, l.Deletions, c.At, now
		return tx.Put(t.ID, old)
	}
	if id := t.Options.Continues; id != "" {
		if err := continueEarlier(tx, id, l, now); err != nil {
			return err
		}
	}
	l.UpdatedAt = now
	if err := tx.Put(t.ID, l); err != nil {
		return err
	}
	if len(l.EarlierTasks) == 0 {
		return nil // the event of the task's end follows
	}
	return tx.Append(l.Event(t, now, "goes on with the work of task "+l.EarlierTasks[len(l.EarlierTasks)-1]))
}

// continueEarlier makes l replace the work of the task with the id, unless that work is settled or is landing at this moment.
func continueEarlier(tx fleet.Tx, id string, l *fleet.Landing, now time.Time) error {
	t, err := tx.Task(id)
	if err != nil || t == nil {
		return err
	}
	earlier, err := fleet.First(tx.Landings(fleet.LandingFilter{TaskIDs: []string{id}}))
	if err != nil || earlier == nil || earlier.State.Settled() || earlier.Candidate != "" {
		return err
	}
	l.Base, l.EarlierTasks = earlier.Base, append(earlier.EarlierTasks, id)
	l.FileCount, l.Insertions, l.Deletions = 0, 0, 0 // not known: this task may have added the changes of others
	switch {
	case earlier.Request != nil:
		l.State, l.Request = fleet.LandingQueued, earlier.Request
	case earlier.State != fleet.LandingBranch:
		l.State = fleet.LandingReview
	}
	earlier.State, earlier.NextTask, earlier.UpdatedAt = fleet.LandingReplaced, l.TaskID, now
	if err := tx.Put(id, earlier); err != nil {
		return err
	}
	return tx.Append(earlier.Event(t, now, "replaced by the work of task "+l.TaskID))
}
