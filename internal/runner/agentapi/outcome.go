package agentapi

import (
	"context"
	"fmt"
	"strings"
	"time"

	"fleet/internal/fleet"
)

// lostOutcome returns the outcome of a run whose workspace is lost or cannot be reached.
func lostOutcome(reason string) fleet.Outcome {
	return fleet.Outcome{Status: fleet.TaskFailed, Reason: reason, ReasonCode: fleet.CodePlaceLost}
}

// reportsSince returns the time, by the host's clock, after which the agent's reports are about the run. The run's message is
// at i.
func (f *follower) reportsSince(i int) time.Time {
	if dispatched, since := f.transcript.dispatchState(); dispatched {
		return since
	}
	return f.view.messages[i].Time.Add(f.workspace.Facts().ClockSkew - f.view.skew - time.Second)
}

// finishAndSeal finishes a run that has ended, and closes it for messages. If a message to the run is being delivered,
// finishAndSeal reports that the run has not ended, because the message continues it.
func (f *follower) finishAndSeal(ctx context.Context, v *view, i, end int) (o fleet.Outcome, ended bool, err error) {
	o, ended, err = f.finish(ctx, v, i, end)
	if err == nil && !f.transcript.seal() {
		return fleet.Outcome{}, false, nil
	}
	return o, ended, err
}

// finish passes on the remaining output of an ended run, and returns its outcome. The messages of the run in v are from i to
// end. Messages after them are of another run or of a person. ended is true unless there is an error.
func (f *follower) finish(ctx context.Context, v *view, i, end int) (o fleet.Outcome, ended bool, err error) {
	f.view = v
	messages := v.messages[i+1 : end]
	if err := f.passOnText(i, end, true); err != nil {
		return fleet.Outcome{}, false, err
	}
	exists, err := f.workspace.Refresh(ctx)
	if err != nil {
		return fleet.Outcome{}, false, err
	}
	var until time.Time
	if end < len(v.messages) {
		until = v.messages[end].Time
	}
	var lastReport Report
	if exists {
		lastReport = f.workspace.Facts().report(f.reportsSince(i), until)
	}
	return f.outcome(messages, lastReport), true, nil
}

// outcome determines the outcome from the run's messages and the agent's last report.
func (f *follower) outcome(messages []message, lastReport Report) fleet.Outcome {
	var all []string
	summary, stopped := "", false
	for _, m := range messages {
		if m.Role == roleUser {
			continue
		}
		lines := finalLines(screenLines(m.Content))
		if words := lastText(lines); words != "" {
			summary = words
		}
		stopped = showsInterrupt(lines)
		all = append(all, lines...)
	}
	if summary == "" {
		summary = lastReport.text()
	}
	o := fleet.Outcome{Status: fleet.TaskCompleted, Summary: shorten(summary, maxSummary)}
	if text := strings.TrimSpace(strings.Join(all, "\n")); text != "" {
		o.Payload = []byte(text)
	}
	switch {
	case !f.timeoutInterruptAt.IsZero():
		o.Status, o.Reason = fleet.TaskFailed, fmt.Sprintf("it ran longer than its limit of %s", f.run.Timeout)
		if f.interrupts > 2 {
			o.Reason += ", and it does not stop"
		}
	case f.transcript.wasInterrupted() || stopped:
		o.Status = fleet.TaskStopped
	case lastReport.State == "failure":
		o.Status, o.Reason = fleet.TaskFailed, "the agent reported: "+lastReport.text()
	case o.Summary == "":
		o.Summary = "The agent became idle without any output"
	}
	return o
}

// maxSummary limits the summary, in bytes. The payload is complete.
const maxSummary = 4000
