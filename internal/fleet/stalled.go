package fleet

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// progress is what is known of how a task goes on.
type progress struct {
	mu     sync.Mutex
	taskID string
	at     time.Time // when its run last put something out, or was first followed by this process
	step   string    // the last step that the run took, or else the last text that it wrote
	open   int       // calls of tools that are under way
}

// maxLastStep is the longest text of a last step, in characters.
const maxLastStep = 200

// begin forgets the task before.
func (p *progress) begin(taskID string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taskID != taskID {
		p.taskID, p.at, p.step, p.open = taskID, now, "", 0
	}
}

// touch says that the run cannot go on now, and that it is not to blame.
func (p *progress) touch(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = now
}

// saw takes note of an output.
func (p *progress) saw(o Output, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.open = now, o.Open
	if line := lastLine(o.Text); line != "" {
		p.step = shorten(line, maxLastStep)
	}
}

// quiet is how long the run has put nothing out; 0 while a tool is at work, whose time is its own.
func (p *progress) quiet(now time.Time) (d time.Duration, step string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open > 0 {
		return 0, p.step
	}
	return now.Sub(p.at), p.step
}

// stepStalled records when the task's run stops making progress, and when it goes on, and returns when to look again.
func (w *worker) stepStalled(ctx context.Context, t *Task) (time.Duration, error) {
	limit := w.cfg.StallTimeout
	if limit <= 0 {
		return retryMost, nil
	}
	if t.Waiting > 0 { // for an answer, which is not its fault
		w.progress.touch(w.now())
	}
	quiet, step := w.progress.quiet(w.now())
	stalled := quiet >= limit
	switch {
	case stalled && t.Stalled():
		return retryMost, nil
	case !stalled && !t.Stalled():
		return limit - quiet, nil
	}
	return 0, w.changeTask(ctx, t.ID, func(tx Tx, t *Task) error {
		if !stalled {
			return w.recovered(tx, t)
		}
		t.StalledAt, t.LastStep = w.now(), step
		text := fmt.Sprintf("no progress for %s", limit)
		if step != "" {
			text += "; the last step was: " + step
		}
		return tx.Append(t.event(EventTaskStalled, t.StalledAt, text))
	})
}

// recovered makes the task one that is not stalled.
func (s *Service) recovered(tx Tx, t *Task) error {
	if !t.Stalled() {
		return nil
	}
	now := s.now()
	text := fmt.Sprintf("it goes on after %s", now.Sub(t.StalledAt).Round(time.Second))
	t.StalledAt, t.LastStep = time.Time{}, ""
	return tx.Append(t.event(EventTaskRecovered, now, text))
}
