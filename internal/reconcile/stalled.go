package reconcile

import (
	"context"
	"fmt"
	"sync"
	"time"

	"fleet/internal/fleet"
)

// progress tracks the progress of a task.
type progress struct {
	mu     sync.Mutex
	taskID string
	at     time.Time // when its run last produced output, or was first followed by this process
	step   string    // the run's last step, or else the last text that it wrote
	open   int       // number of running tool calls
}

// maxLastStep limits the stored last step, in characters.
const maxLastStep = 200

// begin resets the progress for a new task.
func (p *progress) begin(taskID string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taskID != taskID {
		p.taskID, p.at, p.step, p.open = taskID, now, "", 0
	}
}

// touch restarts the time without output, because the run now waits for something outside it.
func (p *progress) touch(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = now
}

// saw records an output.
func (p *progress) saw(o fleet.Output, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.open = now, o.Open
	if step := fleet.ParseStep(o.Data); step != nil && step.Type.Detail() {
		return
	}
	if line := lastLine(o.Text); line != "" {
		p.step = fleet.Shorten(line, maxLastStep)
	}
}

// quiet returns how long the run has produced no output; 0 while a tool runs.
func (p *progress) quiet(now time.Time) (d time.Duration, step string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open > 0 {
		return 0, p.step
	}
	return now.Sub(p.at), p.step
}

// stepStalled records when the task's run stops making progress and when it continues. It returns how long to wait before
// the next check.
func (w *worker) stepStalled(ctx context.Context, t *fleet.Task) (time.Duration, error) {
	limit := w.cfg.StallTimeout
	if limit <= 0 {
		return retryMost, nil
	}
	asking := t.Waiting > 0
	if asking {
		w.progress.touch(w.now())
	}
	quiet, step := w.progress.quiet(w.now())
	stalled := !asking && quiet >= limit // this process may have been suspended after the touch
	switch {
	case stalled && t.Stalled():
		return retryMost, nil
	case !stalled && !t.Stalled():
		return limit - quiet, nil
	}
	return 0, w.changeTask(ctx, t.ID, func(tx fleet.Tx, t *fleet.Task) error {
		if !stalled {
			return w.recovered(tx, t)
		}
		t.StalledAt, t.LastStep = w.now(), step
		text := fmt.Sprintf("no progress for %s", limit)
		if step != "" {
			text += "; the last step was: " + step
		}
		return tx.Append(t.Event(fleet.EventTaskStalled, t.StalledAt, text))
	})
}

// recovered marks the task as no longer stalled.
func (r *Reconciler) recovered(tx fleet.Tx, t *fleet.Task) error {
	if !t.Stalled() {
		return nil
	}
	now := r.now()
	text := fmt.Sprintf("it continues after %s", now.Sub(t.StalledAt).Round(time.Second))
	t.StalledAt, t.LastStep = time.Time{}, ""
	return tx.Append(t.Event(fleet.EventTaskRecovered, now, text))
}
