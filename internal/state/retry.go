package state

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"

	"fleet/internal/fleet"
)

// QueueRetry makes a task from the queue pending again if its run failed for a temporary reason. It returns false, and changes
// nothing, if the task must end. The transaction must have read the agent and the task.
func QueueRetry(tx fleet.Tx, a *fleet.Agent, t *fleet.Task, o fleet.Outcome, now time.Time) (bool, error) {
	if o.Status != fleet.TaskFailed || !t.StopRequestedAt.IsZero() || o.ReasonCode.Retry() == fleet.RetryNever || !a.DeletedAt.IsZero() || a.Desired == fleet.DesiredDeleted {
		return false, nil
	}
	q, err := fleet.First(tx.Queue(fleet.QueueFilter{TaskIDs: []string{t.ID}}))
	if err != nil || q == nil || q.Entry.StartedDirectly {
		return false, err
	}
	if o.ReasonCode.Retry() == fleet.RetryHeld && a.Host.Credential == "" { // without a credential, nothing says when the task can continue
		return false, nil
	}
	e := &q.Entry
	until, begins := o.RetryAt, ""
	if o.ReasonCode == fleet.CodeUsageWindow && a.Host.Credential != "" { // the credential says until when; it may be released earlier
		until, begins = now, "when the credential "+a.Host.Credential+" can be used"
	}
	attempt := fleet.Attempt{Try: t.Try, At: now, Code: o.ReasonCode, Reason: fleet.Shorten(o.Reason, fleet.MaxRowSummary)}
	if !e.RecordFailure(attempt, until, rand.Float64()) { //nolint:gosec // to spread retries
		return false, nil
	}
	if o.ReasonCode.Retry() == fleet.RetryForgets {
		a.HasConversation, a.SessionID = false, ""
	} else {
		recordConversation(a, o)
	}
	if err := tx.Put(t.ID, e); err != nil {
		return false, err
	}
	begins = cmp.Or(begins, "after "+e.RetryAt.UTC().Format(time.RFC3339))
	return true, requeue(tx, a, t, o, now, fmt.Sprintf("attempt %d failed (%s): %s; the next one begins %s", attempt.Try+1, attempt.Code, attempt.Reason, begins))
}
