package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// resumeText tells the agent that its task goes on after a hold for a budget.
const resumeText = "You were interrupted, because a budget was used up. It has room again: go on with the task where you stopped, and finish it."

// failedAttempt returns the previous attempt if the task was queued again after it, and nil otherwise.
func (w *worker) failedAttempt(ctx context.Context, t *fleet.Task) (attempt *fleet.Attempt, err error) {
	if t.Try == 0 {
		return nil, nil //nolint:nilnil // there was no attempt before
	}
	err = w.store.View(ctx, func(tx fleet.ReadTx) error {
		q, err := fleet.First(tx.Queue(fleet.QueueFilter{TaskIDs: []string{t.ID}}))
		if q == nil || len(q.Entry.Attempts) == 0 {
			return err
		}
		if a := q.Entry.Attempts[len(q.Entry.Attempts)-1]; a.Try == t.Try-1 {
			attempt = &a
		}
		return err
	})
	return attempt, err
}

// feedback returns the text that the agent gets at the beginning of another try: about the failed attempt, the hold or the failed
// checks before it, and the results of delegated tasks. The text is empty for the first try.
func (w *worker) feedback(ctx context.Context, t *fleet.Task, attempt *fleet.Attempt) (text string, err error) {
	since := t.Try
	switch {
	case t.Try == 0:
		return "", nil
	case t.Resumes():
		text = resumeText
	case attempt != nil && attempt.Code.Retry() == fleet.RetryForgets:
		text, since = "An earlier attempt at this task ended because its conversation became too long. Look at what it has left in the working tree, and go on from there.", t.Delegation.WokenTry
	case attempt != nil:
		text, since = "The attempt before this one ended early ("+attempt.Reason+"). Go on with the task where it stopped.", t.Delegation.WokenTry
	case t.Try == t.Delegation.WokenTry:
	default:
		record, err := w.recordedChecks(ctx, t)
		if err != nil {
			return "", err
		}
		if record != nil {
			text = feedbackText(record)
		}
	}
	results, err := read(ctx, w.store, func(tx fleet.ReadTx) (string, error) { return state.PromptResults(tx, t, since) })
	switch {
	case text == "":
		return cmp.Or(results, "# The tasks that you delegated have ended."), err
	case results == "":
		return text, err
	}
	return text + "\n\n" + results, err
}

// feedbackText returns the text that tells the agent which checks failed and what they wrote.
func feedbackText(c *fleet.TaskChecks) string {
	var b strings.Builder
	b.WriteString("You said that the task is done. These checks of your work failed. Correct what they found, and finish the task; they are run again after that.\n")
	for _, r := range c.Results {
		if r.Status == fleet.CheckPassed {
			continue
		}
		fmt.Fprintf(&b, "\n$ %s\n", r.Command)
		if r.Truncated {
			b.WriteString("[...]\n")
		}
		b.WriteString(r.Output)
		if !strings.HasSuffix(r.Output, "\n") && r.Output != "" {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "[%s]\n", resultText(r))
	}
	return b.String()
}
