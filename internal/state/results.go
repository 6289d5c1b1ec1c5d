package state

import (
	"fmt"
	"strings"
	"time"

	"fleet/internal/fleet"
)

// deliverResult sends the result of an ended task to its parent as a message, unless the task's Wake is WakeQuiet. It also gives the
// unused part of the task's limit back to the parent. It does nothing if the parent has ended or is being stopped. See AwaitResults for a
// parent that waits for results.
func deliverResult(tx fleet.Tx, t *fleet.Task, now time.Time) error {
	if t.ParentID == "" {
		return nil
	}
	parent, err := tx.Task(t.ParentID)
	if err != nil || parent == nil || !parent.Active() || parent.Stopping() {
		return err
	}
	if err := returnFunds(tx, parent, t, now); err != nil {
		return err
	}
	d := &parent.Delegation
	if wake := t.Delegation.Wake; wake != fleet.WakeQuiet {
		if wake.Awaited() {
			d.AwaitedChildren = max(0, d.AwaitedChildren-1)
		}
		d.Ready = d.Waits && (d.Ready || wake == fleet.WakeEach || d.AwaitedChildren == 0)
		text, err := resultText(tx, t)
		if err != nil {
			return err
		}
		if err := tx.Insert(&fleet.Message{ID: "result/" + t.ID, TaskID: parent.ID, Text: text, CreatedAt: now, FromTask: t.ID}); err != nil {
			return err
		}
	}
	if err := tx.Update(parent); err != nil {
		return err
	}
	return tx.Append(parent.Event(fleet.EventTaskDelegated, now, fmt.Sprintf("the delegated task %s %s", t.Ref(), t.Status.EndText())))
}

// maxResultText limits the summary in a result, in characters. The parent can read the whole summary with a call.
const maxResultText = 4000

// resultText returns the text that informs the parent of the task about its end. Each line begins with #, so that a shell,
// which runs some prompts, treats it as a comment.
func resultText(tx fleet.ReadTx, t *fleet.Task) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "# The task that you delegated, %s, %s.", t.Ref(), t.Status.EndText())
	line := func(format string, args ...any) { fmt.Fprintf(&b, "\n# "+format, args...) }
	line("task_id: %s, agent: %s", t.ID, t.AgentName)
	if t.ReasonCode != "" {
		line("reason_code: %s", t.ReasonCode)
	}
	if t.Status != fleet.TaskCompleted && t.Reason != "" {
		line("reason: %s", strings.Join(strings.Fields(t.Reason), " "))
	}
	if cost := t.Used().Micros + t.Delegation.GivenToChildren; cost > 0 {
		line("cost: %s", cost)
	}
	if t.HasChecks {
		checks, err := tx.Checks(t.ID)
		if err != nil {
			return "", err
		}
		if checks != nil && len(checks.Results) > 0 {
			passed := 0
			for _, r := range checks.Results {
				if r.Status == fleet.CheckPassed {
					passed++
				}
			}
			line("checks: %d of %d passed", passed, len(checks.Results))
		}
	}
	changes, err := tx.Changes(t.ID)
	if err != nil {
		return "", err
	}
	if changes != nil && changes.FileCount > 0 {
		line("changed files: %d, +%d -%d; commits: %d", changes.FileCount, changes.Insertions, changes.Deletions, changes.Commits)
		if changes.Branch != "" {
			line("branch: %s", changes.Branch)
		}
	}
	for text := range strings.Lines(fleet.Shorten(t.Headline(), maxResultText)) {
		line("%s", strings.TrimRight(text, "\r\n"))
	}
	return b.String(), nil
}

// AwaitResults makes a task pending if its turn is over and it awaits tasks that it has delegated: they have not ended, or their
// results are unread. The task continues when the results are there. Until then, other tasks can use its agent. Otherwise
// AwaitResults does nothing and returns false.
func AwaitResults(tx fleet.Tx, a *fleet.Agent, t *fleet.Task, o fleet.Outcome, now time.Time) (bool, error) {
	d := &t.Delegation
	if d.Children == 0 || o.Status != fleet.TaskCompleted || o.Reported || t.Stopping() || !a.DeletedAt.IsZero() || a.Desired != fleet.DesiredRunning {
		return false, nil
	}
	unread, ready, err := unreadResults(tx, t)
	if err != nil || unread == 0 && d.AwaitedChildren == 0 {
		return false, err
	}
	q, err := fleet.First(tx.Queue(fleet.QueueFilter{TaskIDs: []string{t.ID}}))
	if err != nil {
		return false, err
	}
	if q == nil {
		e := &fleet.QueueEntry{StartedDirectly: true, By: t.Owner, Kind: kindOfSource(t.Source), Scope: fleet.ScopeRun}
		if err := tx.Put(t.ID, e); err != nil {
			return false, err
		}
	}
	recordConversation(a, o)
	d.Waits, d.Ready, d.WokenTry = true, ready || d.AwaitedChildren == 0, t.Try+1
	text := "its turn is over, and it goes on with the results of the tasks that it has delegated"
	if d.AwaitedChildren > 0 {
		text = fmt.Sprintf("its turn is over, and it waits for %d tasks that it has delegated", d.AwaitedChildren)
	}
	return true, requeue(tx, a, t, o, now, text)
}

// kindOfSource returns the kind of the principals whose tasks have the source.
func kindOfSource(s fleet.Source) fleet.PrincipalKind {
	switch s {
	case fleet.SourceAIController:
		return fleet.KindController
	case fleet.SourceAgent:
		return fleet.KindAgent
	}
	return fleet.KindHuman
}

// unreadResults counts the awaited results that were sent to the task and not delivered to it. ready reports whether the task
// continues with them even if it awaits others.
func unreadResults(tx fleet.ReadTx, t *fleet.Task) (n int, ready bool, err error) {
	if !t.HasMessages {
		return 0, false, nil
	}
	all, err := tx.Messages(fleet.MessageFilter{TaskID: t.ID})
	if err != nil {
		return 0, false, err
	}
	for _, m := range all {
		if m.FromTask == "" || !m.Open() {
			continue
		}
		from, err := tx.Task(m.FromTask)
		if err != nil {
			return 0, false, err
		}
		if from != nil && from.Delegation.Wake.Awaited() {
			n, ready = n+1, ready || from.Delegation.Wake == fleet.WakeEach
		}
	}
	return n, ready, nil
}

// PutResultsInPrompt marks the unread results of delegated tasks as parts of the prompt of the try that starts. PromptResults
// returns them.
func PutResultsInPrompt(tx fleet.Tx, t *fleet.Task, now time.Time) error {
	if !t.HasMessages || t.Delegation.WokenTry == 0 || t.Try < t.Delegation.WokenTry {
		return nil
	}
	all, err := tx.Messages(fleet.MessageFilter{TaskID: t.ID})
	for _, m := range all {
		if err == nil && m.FromTask != "" && m.Open() {
			m.PromptTry, m.DeliveredAt = t.Try, now
			err = tx.Update(m)
		}
	}
	return err
}

// PromptResults returns the texts of the results that the prompts of the tries from since on contain; empty if there are none.
func PromptResults(tx fleet.ReadTx, t *fleet.Task, since int) (string, error) {
	if !t.HasMessages || t.Delegation.WokenTry == 0 {
		return "", nil
	}
	all, err := tx.Messages(fleet.MessageFilter{TaskID: t.ID})
	var texts []string
	for _, m := range all {
		if m.PromptTry >= since && m.PromptTry > 0 {
			texts = append(texts, m.Text)
		}
	}
	return strings.Join(texts, "\n\n"), err
}
