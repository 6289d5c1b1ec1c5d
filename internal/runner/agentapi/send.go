package agentapi

import (
	"context"
	"errors"
	"slices"

	"fleet/internal/fleet"
)

// Send implements fleet.Runner. A busy agent gets the message when it is idle.
func (w runner) Send(ctx context.Context, r fleet.Run, id, text string) error {
	runners, a := w.runners, w.agent
	if err := ctx.Err(); err != nil {
		return err
	}
	t := runners.transcripts.getOrCreate(r.TaskID)
	if t.hasMessage(id) {
		return nil
	}
	noTaskErr := fleet.Errorf(fleet.ReasonNoRunningTask, "the agent %q no longer works on the task %s", a.Name, r.TaskID)
	if _, ended := t.endOutcome(); ended { // this process has seen the end of the run
		return noTaskErr
	}
	pending := &pendingMessage{id: id, text: typeableText(text), dropped: make(chan struct{})}
	if pending.text == "" {
		return fleet.InvalidField("message", "message has no characters that can be typed into a terminal: write the message as text")
	}
	registered := t.addPending(pending)
	defer t.removePending(pending)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-pending.dropped:
			cancel(noTaskErr)
		case <-ctx.Done():
		}
	}()
	for {
		retry, err := w.deliver(ctx, r, t, pending, registered, noTaskErr)
		if retry && registered {
			pause := pollPause
			var e *fleet.Error
			if errors.As(err, &e) {
				pause = max(pause, e.RetryAfter)
			}
			if runners.config.Wait(ctx, pause) == nil {
				continue
			}
		}
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
}

// deliver delivers the message to the agent. retry reports whether a later attempt may succeed. registered is false if the
// run accepts no more messages: then deliver only checks whether the run has already got the message. deliver returns noTaskErr
// if the run can no longer get the message.
func (w runner) deliver(ctx context.Context, r fleet.Run, t *transcript, pending *pendingMessage, registered bool, noTaskErr error) (retry bool, err error) {
	runners, a := w.runners, w.agent
	workspace, err := w.findWorkspace(ctx)
	if err != nil {
		return fleet.ReasonOf(err) == fleet.ReasonBackendUnavailable, err
	}
	api, err := runners.reachableClient(a, workspace)
	if err != nil {
		return workspace != nil && workspace.Facts().Running, err
	}
	_, err = runners.deliverOnce(ctx, a, workspace, api, delivery{
		locate: func(v *view) bool {
			i := runners.locate(v, a, r, t)
			return i >= 0 && t.findMessage(v.messages[i+1:], pending.id, pending.text)
		},
		text: func(v *view) (string, error) {
			i := runners.locate(v, a, r, t)
			if i < 0 || !registered {
				return "", noTaskErr
			}
			if _, last := runners.findEnd(v, a, t, i); !last {
				return "", noTaskErr
			}
			return pending.text, nil
		},
		checkNotBusy: func(*view) error {
			if !registered {
				return noTaskErr
			}
			return nil
		},
	})
	switch fleet.ReasonOf(err) {
	case fleet.ReasonBackendUnavailable, fleet.ReasonAgentBusy:
		return true, err
	case fleet.ReasonAgentOffline:
		return workspace.Facts().Running, err
	}
	return false, err
}

// findMessage reports whether the run has got the message. It looks for the message among the run's later messages, and records
// when the run got it.
func (t *transcript) findMessage(later []message, id, text string) bool {
	if t.hasMessage(id) {
		return true
	}
	for _, m := range later {
		if m.Role == roleUser && m.Content == text && !t.hasMessageAt(m.Time) {
			t.recordMessage(id, m.Time)
			return true
		}
	}
	return false
}

// findMessages looks for the given messages among the run's later messages. Other processes may have delivered them. Both
// lists are in the order of delivery.
func (t *transcript) findMessages(later []message, given []fleet.Message) {
	for _, g := range given {
		if !t.hasMessage(g.ID) {
			t.findMessage(later, g.ID, typeableText(g.Text))
		}
		if at, ok := t.messageTime(g.ID); ok {
			later = slices.DeleteFunc(slices.Clone(later), func(m message) bool { return !m.Time.After(at) })
		}
	}
}
