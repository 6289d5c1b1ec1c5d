package state

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"fleet/internal/fleet"
)

// TimeoutReason returns the reason for a task that exceeded its time limit.
func TimeoutReason(t *fleet.Task) string {
	return fmt.Sprintf("it ran longer than its limit of %s", t.Timeout)
}

// safeSessionIDPattern matches session ids that are safe in commands. The agent can choose the id, and people copy it into commands.
var safeSessionIDPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)

// recordConversation records in the agent that the run has left a conversation to continue, with its session id if that is safe.
func recordConversation(a *fleet.Agent, o fleet.Outcome) {
	if !o.HasConversation {
		return
	}
	a.HasConversation, a.SessionID = true, ""
	if safeSessionIDPattern.MatchString(o.SessionID) {
		a.SessionID = o.SessionID
	}
}

// EndTask ends the task of the agent with the outcome, writes the task and the agent, and appends an EventTaskEnded. The
// transaction must have read the agent and the task. EndTask does not write a deleted agent. Before it writes the agent, it
// calls change, which may be nil.
func EndTask(tx fleet.Tx, a *fleet.Agent, t *fleet.Task, o fleet.Outcome, now time.Time, change func(a *fleet.Agent)) error {
	if err := recordCredentialOutcome(tx, a, t, o, now); err != nil {
		return err
	}
	applyOutcome(t, o, now)
	if err := storePayload(tx, t, o.Payload, o.Gap, t.EndedAt); err != nil {
		return err
	}
	text := t.Reason
	if text == "" {
		text = t.Headline()
	}
	if err := releaseAgent(tx, a, t, o, now, change); err != nil {
		return err
	}
	return finishTask(tx, t, text, now)
}

// finishTask settles everything that belongs to the task when it ends, and writes the task and an EventTaskEnded with the
// text. Then it delivers the result to the task's parent, and stops the tasks that the task has delegated.
func finishTask(tx fleet.Tx, t *fleet.Task, text string, now time.Time) error {
	if err := refuseMessages(tx, t, now); err != nil {
		return err
	}
	if err := WithdrawQuestions(tx, t, now); err != nil {
		return err
	}
	if err := settleReservations(tx, t, now); err != nil {
		return err
	}
	if err := tx.Update(t); err != nil {
		return err
	}
	if err := tx.Append(t.Event(fleet.EventTaskEnded, now, text)); err != nil {
		return err
	}
	if err := deliverResult(tx, t, now); err != nil {
		return err
	}
	return stopChildren(tx, t, now)
}

// applyOutcome sets the task's status and results from the outcome. If a stop was requested and the task has not completed, the
// request decides the status and the reason.
func applyOutcome(t *fleet.Task, o fleet.Outcome, now time.Time) {
	t.Status, t.Reason = o.Status, o.Reason
	if !t.StopRequestedAt.IsZero() && o.Status != fleet.TaskCompleted {
		t.Status, t.Reason = fleet.TaskStopped, t.StopReason
		if t.StopReason == TimeoutReason(t) {
			t.Status = fleet.TaskFailed
		}
	}
	if t.Status == fleet.TaskFailed && t.Reason == "" {
		t.Reason = "the agent gave no reason"
	}
	t.EndedAt, t.StalledAt, t.LastStep, t.CollectingAt = now, time.Time{}, "", time.Time{}
	if !o.EndedAt.IsZero() && o.EndedAt.Before(now) { // Fleet may notice the end much later, for example after its own restart
		t.EndedAt = o.EndedAt
		if t.EndedAt.Before(t.StartedAt) { // the host's clock may be behind
			t.EndedAt = t.StartedAt
		}
	}
	t.Reported = o.Reported && t.Status == o.Status
	t.Terminal = t.Terminal || o.Terminal
	if t.Status == fleet.TaskFailed && o.Status == fleet.TaskFailed {
		t.ReasonCode, t.RetryAt = o.ReasonCode, o.RetryAt
	}
	t.Summary, t.ExitCode = o.Summary, o.ExitCode
	if t.Status == fleet.TaskCompleted {
		t.Output = o.Output
	}
	t.AddUsage(o)
	if r := t.Spending.Reserve; r != nil && r.Breach != "" && t.Status == fleet.TaskStopped {
		t.Status, t.ReasonCode = fleet.TaskFailed, fleet.CodeBudget
	}
}

// releaseAgent writes the agent of a task that has ended, and revokes the tokens that the task's run could use. It does nothing if the
// agent is deleted. Before it writes the agent, it calls change, which may be nil.
func releaseAgent(tx fleet.Tx, a *fleet.Agent, t *fleet.Task, o fleet.Outcome, now time.Time, change func(a *fleet.Agent)) error {
	if !a.DeletedAt.IsZero() {
		return nil
	}
	a.UpdatedAt = now
	recordConversation(a, o)
	if a.OneTask {
		a.Desired = fleet.DesiredDeleted
	}
	if change != nil {
		change(a)
	}
	if a.Config != nil || t.Delegation.Grant != nil {
		if err := RevokeAgentTokens(tx, a.UID, now); err != nil {
			return err
		}
	}
	return tx.Update(a)
}

// storePayload appends the payload to the part that was stored while the task ran, and stores both as one payload. If the disk is
// full, only the earlier part stays, and an event says so.
func storePayload(tx fleet.Tx, t *fleet.Task, payload []byte, gap fleet.Gap, now time.Time) error {
	if len(payload) == 0 && t.PayloadSize == 0 {
		return nil
	}
	addedSize := len(payload)
	if t.PayloadSize > 0 {
		stored, err := tx.Payload(t.ID)
		if err != nil {
			return err
		}
		payload = append(stored, payload...)
		gap.Offset += len(stored)
	}
	oldSize, oldGap := t.PayloadSize, t.PayloadGap
	t.PayloadSize = len(payload)
	if t.PayloadGap = (fleet.Gap{}); gap.Size > 0 {
		t.PayloadGap = gap
	}
	err := tx.Put(t.ID, fleet.Payload(payload))
	if errors.Is(err, fleet.ErrStoreFull) { // the task's end must be recorded even if the payload cannot be
		t.PayloadSize, t.PayloadGap = oldSize, oldGap
		return tx.Append(t.Event(fleet.EventTaskStep, now, fmt.Sprintf("%d bytes of the payload are not kept: the disk of the server's data is full", addedSize)))
	}
	return err
}
