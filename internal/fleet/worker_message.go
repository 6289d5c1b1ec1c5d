package fleet

import (
	"context"
	"log/slog"
	"time"
)

// courier gives a run its messages in the background, one after the other, until there are none. The host has an agent
// that cannot take one now wait for it, so the run does not end meanwhile.
type courier struct {
	cancel context.CancelFunc
	done   chan struct{} // closed at the end
}

// end ends the delivery and waits for it. A message that is on its way may or may not arrive: it is given again by its id.
func (p *courier) end() {
	if p != nil {
		p.cancel()
		<-p.done
	}
}

// stepMessages sees to it that somebody gives the task that is followed its messages, if it has any.
func (w *worker) stepMessages(ctx context.Context, a *Agent, t *Task) error {
	f := w.follow
	if f.checks != nil {
		return nil // what comes now is for the next try, if there is one
	}
	if !t.StopAsked.IsZero() {
		f.post.end()
		f.post = nil
		return nil
	}
	if f.post != nil {
		select {
		case <-f.post.done:
		default:
			return nil // it looks for more before it ends
		}
	}
	open, _, err := w.messages(ctx, t)
	if err != nil || len(open) == 0 {
		f.post = nil
		return err
	}
	ctx, cancel := context.WithCancel(f.ctx)
	p := &courier{cancel: cancel, done: make(chan struct{})}
	f.post = p
	agent, task, run := *a, *t, t.run(true)
	go func() {
		defer close(p.done)
		defer cancel()
		w.deliver(ctx, &agent, &task, run)
	}()
	return nil
}

// messages returns the messages of the task's run, oldest first: those that are to be given, and those that were. What was
// given before the agent tried again was given to another run.
func (w *worker) messages(ctx context.Context, t *Task) (open, given []Message, err error) {
	err = w.store.View(ctx, func(tx ReadTx) error {
		all, err := tx.Messages(t.ID)
		open, given = nil, nil
		for _, m := range all {
			switch {
			case m.Open():
				open = append(open, *m)
			case m.Refused == "" && (t.Try == 0 || !m.GivenAt.Before(t.Dispatched)):
				given = append(given, *m)
			}
		}
		return err
	})
	return open, given, err
}

// deliver gives the run its messages until there are none, or ctx is done.
func (w *worker) deliver(ctx context.Context, a *Agent, t *Task, r Run) {
	for failures := 0; ctx.Err() == nil; {
		open, given, err := w.messages(ctx, t)
		if err == nil {
			if len(open) == 0 {
				return
			}
			w.cfg.Fault(FaultMessageBefore)
			r.Messages = given
			err = w.places.of(a).Connect(*a).Send(ctx, r, open[0].ID, open[0].Text)
			if ctx.Err() != nil {
				return
			}
			if !waits(err) {
				if err == nil {
					w.cfg.Fault(FaultMessageAfter)
				}
				err = w.became(ctx, open[0], err)
			}
		}
		if err == nil {
			failures = 0
			continue
		}
		failures++
		w.log.WarnContext(ctx, "a message is given again later", slog.String("task", t.ID), slog.Any("error", err))
		again := time.NewTimer(backoff(failures, troubleMost))
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
		}
	}
}

// waits says whether a message that met the error may be taken later.
func waits(err error) bool {
	switch ReasonOf(err) {
	case ReasonBackendUnavailable, ReasonAgentBusy, ReasonAgentOffline, ReasonTaskNotFound:
		return true
	}
	return false
}

// became records what has become of the message: the agent has it, or err says why it never will.
func (w *worker) became(ctx context.Context, m Message, err error) error {
	if err != nil {
		w.log.WarnContext(ctx, "a message was not given to its agent", slog.String("task", m.TaskID), slog.Any("error", err))
	}
	return w.store.Update(ctx, func(tx Tx) error {
		now, known := tx.Message(m.ID)
		t, lost := tx.Task(m.TaskID)
		switch {
		case known != nil:
			return known
		case lost != nil:
			return lost
		case now == nil || !now.Open() || t == nil:
			return nil
		case err != nil:
			return refuseMessage(tx, t, now, w.now(), ReasonOf(err), PublicMessage(err))
		}
		now.GivenAt = w.now()
		if err := tx.UpdateMessage(now); err != nil {
			return err
		}
		if now.GivenAt.Sub(now.CreatedAt) < w.cfg.MessageWait {
			return nil // its sender was told
		}
		return tx.Append(t.event(EventTaskStep, now.GivenAt, "the agent was given the message that waited for it"))
	})
}

// refuseMessage records that the agent never gets the message.
func refuseMessage(tx Tx, t *Task, m *Message, now time.Time, r Reason, words string) error {
	m.Refused, m.RefusedText = r, words
	if err := tx.UpdateMessage(m); err != nil {
		return err
	}
	return tx.Append(t.event(EventTaskStep, now, "a message was not given to the agent: "+words))
}

// lastCall asks the host of a run that has ended about the messages of which nobody knows yet whether the agent has them.
func (w *worker) lastCall(ctx context.Context, a *Agent, t *Task) error {
	open, given, err := w.messages(ctx, t)
	for _, m := range open {
		if err != nil {
			return err
		}
		r := t.run(true)
		r.Messages = given
		sent := w.ask(ctx, a, func(ctx context.Context) error { return w.places.of(a).Connect(*a).Send(ctx, r, m.ID, m.Text) })
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case sent == nil:
			given = append(given, m)
		case waits(sent):
			sent = tooLate(t)
		}
		err = w.became(ctx, m, sent)
	}
	return err
}

// refuseMessages records, of a task that ends, that the agent never gets the messages that it has not got by now.
func refuseMessages(tx Tx, t *Task, now time.Time) error {
	all, err := tx.Messages(t.ID)
	for _, m := range all {
		if err == nil && m.Open() {
			e := tooLate(t)
			err = refuseMessage(tx, t, m, now, e.Reason, e.Message)
		}
	}
	return err
}

func tooLate(t *Task) *Error {
	return Errorf(ReasonNoRunningTask, "the task of agent %q ended before the agent could take the message: start another one", t.AgentName).
		With("agent_name", t.AgentName)
}
