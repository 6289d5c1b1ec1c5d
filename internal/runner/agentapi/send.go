package agentapi

import (
	"context"
	"errors"
	"slices"
	"time"

	"fleet/internal/fleet"
)

// letter is a message on its way to a run. As long as it is, the run does not end by coming to rest.
type letter struct {
	id, text string        // as it is typed
	dropped  chan struct{} // closed when the run is not to have it any more
}

// enter lets the letter wait for the run; false when the run has ended, or is to end.
func (t *transcript) enter(l *letter) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sealed || t.ended || t.interrupted {
		return false
	}
	t.waiting = append(t.waiting, l)
	return true
}

// leave ends the letter's waiting.
func (t *transcript) leave(l *letter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = slices.DeleteFunc(t.waiting, func(o *letter) bool { return o == l })
}

// waits reports whether a letter waits for the run.
func (t *transcript) waits() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting) > 0
}

// isWaiting reports whether the text is that of a letter which waits for the run, or is being given to it.
func (t *transcript) isWaiting(text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.waiting, func(l *letter) bool { return l.text == text })
}

// drop drops the letters that wait for the run.
func (t *transcript) drop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.waiting {
		close(l.dropped)
	}
	t.waiting = nil
}

// waitingLetters is how many letters wait for the run.
func (t *transcript) waitingLetters() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting)
}

// seal says that the run is ending, so that no letter can wait for it any more; false when one does.
func (t *transcript) seal() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sealed = len(t.waiting) == 0
	return t.sealed
}

// unseal says that the run goes on.
func (t *transcript) unseal() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sealed = false
}

// Send implements fleet.Runner. An agent that works takes a message when it has come to rest.
func (w runner) Send(ctx context.Context, r fleet.Run, id, text string) error {
	all, a := w.all, w.agent
	if err := ctx.Err(); err != nil {
		return err
	}
	t := all.runs.of(r.TaskID)
	if t.hasLetter(id) {
		return nil
	}
	over := fleet.Errorf(fleet.ReasonNoRunningTask, "the agent %q does not work on the task %s any more", a.Name, r.TaskID)
	if _, ended := t.result(); ended { // and what was on its way to it was not forgotten
		return over
	}
	l := &letter{id: id, text: typed(text), dropped: make(chan struct{})}
	if l.text == "" {
		return fleet.Invalid(fleet.ReasonInvalidArgument, "message", "there is nothing in it that could be typed into a terminal")
	}
	entered := t.enter(l)
	defer t.leave(l)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-l.dropped:
			cancel(over)
		case <-ctx.Done():
		}
	}()
	for {
		again, err := w.post(ctx, r, t, l, entered, over)
		if again && entered {
			pause := pollPause
			var e *fleet.Error
			if errors.As(err, &e) {
				pause = max(pause, e.RetryAfter)
			}
			if all.config.Wait(ctx, pause) == nil {
				continue
			}
		}
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
}

// post gives the agent the letter; again says that it may take it later. A run that has ended may still have it already.
func (w runner) post(ctx context.Context, r fleet.Run, t *transcript, l *letter, entered bool, over error) (again bool, err error) {
	all, a := w.all, w.agent
	at, err := w.find(ctx)
	if err != nil {
		return fleet.ReasonOf(err) == fleet.ReasonBackendUnavailable, err
	}
	api, err := all.reach(a, at)
	if err != nil {
		return at != nil && at.Facts().Running, err
	}
	_, err = all.give(ctx, a, at, api, giving{
		done: func(v *view) bool {
			i := all.locate(v, a, r, t)
			return i >= 0 && t.findLetter(v.messages[i+1:], l.id, l.text)
		},
		text: func(v *view) (string, error) {
			i := all.locate(v, a, r, t)
			if i < 0 || !entered {
				return "", over
			}
			if _, last := all.segment(v, a, t, i); !last {
				return "", over
			}
			return l.text, nil
		},
		busy: func(*view) error {
			if !entered {
				return over
			}
			return nil
		},
	})
	switch fleet.ReasonOf(err) {
	case fleet.ReasonBackendUnavailable, fleet.ReasonAgentBusy:
		return true, err
	case fleet.ReasonAgentOffline:
		return at.Facts().Running, err
	}
	return false, err
}

// findLetter reports whether the message was given to the run, whose later messages they are.
func (t *transcript) findLetter(later []message, id, text string) bool {
	if t.hasLetter(id) {
		return true
	}
	for _, m := range later {
		if m.Role == roleUser && m.Content == text && !t.hasLetterAt(m.Time) {
			t.gotLetter(id, m.Time)
			return true
		}
	}
	return false
}

// recall notes which of the run's later messages are those that it was given by others, in their order.
func (t *transcript) recall(later []message, given []fleet.Message) {
	for _, g := range given {
		if !t.hasLetter(g.ID) {
			t.findLetter(later, g.ID, typed(g.Text))
		}
		if at, ok := t.letterAt(g.ID); ok {
			later = slices.DeleteFunc(slices.Clone(later), func(m message) bool { return !m.Time.After(at) })
		}
	}
}

// letterAt is when the run was given the message, if that is known.
func (t *transcript) letterAt(id string) (time.Time, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, ok := t.letters[id]
	return at, ok
}
