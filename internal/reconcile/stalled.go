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
	mu            sync.Mutex
	taskID        string
	activeAt      time.Time // when its run last produced output or began to wait for an answer, or when this process began to follow it
	lastStep      string    // the run's last step, or else the last text that it wrote
	runningCalls  int       // number of running tool calls
	retryingSince time.Time // since when the run only repeats requests to its model; zero if it does not
}

// maxLastStep limits the stored last step, in characters.
const maxLastStep = 200

// begin resets the progress, unless it already tracks the task.
func (p *progress) begin(taskID string, activeAt time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taskID != taskID {
		p.taskID, p.activeAt, p.lastStep, p.runningCalls, p.retryingSince = taskID, activeAt, "", 0, time.Time{}
	}
}

// touch restarts the measurement of the time without output, because the run now waits for something outside it.
func (p *progress) touch(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.activeAt = now
}

// observeOutput counts the output as progress, unless it only says that the run repeats a request to its model.
func (p *progress) observeOutput(o fleet.Output, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.activeAt, p.runningCalls = now, o.RunningToolCalls
	step := fleet.ParseStep(o.Data)
	switch {
	case step == nil || step.Type != fleet.StepRetry:
		p.retryingSince = time.Time{}
	case p.retryingSince.IsZero():
		p.retryingSince = now
	}
	if step != nil && step.Type.IsDetail() {
		return
	}
	if line := lastLine(o.Text); line != "" {
		p.lastStep = fleet.Shorten(line, maxLastStep)
	}
}

// maxRetrying is how long a run may repeat requests to its model before it counts as stalled.
const maxRetrying = time.Minute

// sinceProgress returns how long the run has made no progress, and its last step. The run is stalled when d reaches limit. d is
// the time without output, and 0 while a tool runs. If the run only repeats requests to its model, retrying is set, and d reaches
// limit after maxRetrying, or after limit if that is shorter.
func (p *progress) sinceProgress(now time.Time, limit time.Duration) (d time.Duration, step string, retrying bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.retryingSince.IsZero() {
		return limit - min(limit, maxRetrying) + now.Sub(p.retryingSince), p.lastStep, true
	}
	if p.runningCalls > 0 {
		return 0, p.lastStep, false
	}
	return now.Sub(p.activeAt), p.lastStep, false
}

// updateStall records that the task has stalled, or that it continues. A task that waits for an answer is not stalled. updateStall
// returns how long to wait before the next check.
func (w *worker) updateStall(ctx context.Context, t *fleet.Task) (time.Duration, error) {
	limit := w.cfg.StallTimeout
	if limit <= 0 || t.Options.Attached != nil {
		return maxRetryDelay, nil
	}
	asking := t.OpenQuestions > 0
	if asking {
		w.progress.touch(w.now())
	}
	quietFor, step, retrying := w.progress.sinceProgress(w.now(), limit)
	stalled := !asking && quietFor >= limit // this process may have been suspended after the touch
	switch {
	case stalled && t.Stalled():
		return maxRetryDelay, nil
	case !stalled && !t.Stalled():
		if asking { // then quietFor may exceed the limit, because the run also repeats a request
			return maxRetrying, nil
		}
		return min(limit-quietFor, maxRetrying), nil
	}
	return 0, w.changeTask(ctx, t.ID, func(tx fleet.Tx, t *fleet.Task) error {
		if !stalled {
			return w.clearStall(tx, t)
		}
		t.StalledAt, t.LastStep = w.now(), step
		text := fmt.Sprintf("no progress for %s", limit)
		if retrying {
			text = "its requests to the model fail again and again"
		}
		if step != "" {
			text += "; the last step was: " + step
		}
		return tx.Append(t.Event(fleet.EventTaskStalled, t.StalledAt, text))
	})
}

// clearStall marks the task as no longer stalled.
func (r *Reconciler) clearStall(tx fleet.Tx, t *fleet.Task) error {
	if !t.Stalled() {
		return nil
	}
	now := r.now()
	text := fmt.Sprintf("it continues after %s", now.Sub(t.StalledAt).Round(time.Second))
	t.StalledAt, t.LastStep = time.Time{}, ""
	return tx.Append(t.Event(fleet.EventTaskRecovered, now, text))
}
