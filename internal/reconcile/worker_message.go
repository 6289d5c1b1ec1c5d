package reconcile

import (
	"context"
	"log/slog"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// delivery gives a run its messages in the background, one after the other, until there are none. The host has an agent
// that cannot take one now wait for it, so the run does not end meanwhile.
type delivery struct {
	cancel context.CancelFunc
	done   chan struct{} // closed at the end
}

// end ends the delivery and waits for it. A message that is on its way may or may not arrive: it is given again by its id.
func (p *delivery) end() {
	if p != nil {
		p.cancel()
		<-p.done
	}
}

// stepMessages sees to it that somebody gives the task that is followed its messages, if it has any.
func (w *worker) stepMessages(ctx context.Context, a *fleet.Agent, t *fleet.Task) error {
	f := w.follow
	if f.checks != nil {
		return nil // what comes now is for the next try, if there is one
	}
	if !t.StopAsked.IsZero() {
		f.delivery.end()
		f.delivery = nil
		return nil
	}
	if f.delivery != nil {
		select {
		case <-f.delivery.done:
		default:
			return nil // it looks for more before it ends
		}
	}
	open, _, err := w.messages(ctx, t)
	if err != nil || len(open) == 0 {
		f.delivery = nil
		return err
	}
	ctx, cancel := context.WithCancel(f.ctx)
	p := &delivery{cancel: cancel, done: make(chan struct{})}
	f.delivery = p
	agent, task, run := *a, *t, t.Run(true)
	go func() {
		defer close(p.done)
		defer cancel()
		w.deliver(ctx, &agent, &task, run)
	}()
	return nil
}

// messages returns the messages of the task's run, see runMessages.
func (w *worker) messages(ctx context.Context, t *fleet.Task) (open, given []fleet.Message, err error) {
	if !t.HasMessages {
		return nil, nil, nil
	}
	err = w.store.View(ctx, func(tx fleet.ReadTx) (err error) {
		open, given, err = runMessages(tx, t)
		return err
	})
	return open, given, err
}

// runMessages returns the messages of the task's run, oldest first: those that are to be given, and those that were. What was
// given before the agent tried again was given to another run.
func runMessages(tx fleet.ReadTx, t *fleet.Task) (open, given []fleet.Message, err error) {
	all, err := tx.Messages(t.ID)
	for _, m := range all {
		switch {
		case m.Open():
			open = append(open, *m)
		case m.Refused == "" && (t.Try == 0 || !m.GivenAt.Before(t.Dispatched)):
			given = append(given, *m)
		}
	}
	return open, given, err
}

// deliver gives the run its messages until there are none, or ctx is done.
func (w *worker) deliver(ctx context.Context, a *fleet.Agent, t *fleet.Task, r fleet.Run) {
	for failures := 0; ctx.Err() == nil; {
		open, given, err := w.messages(ctx, t)
		if err == nil {
			if len(open) == 0 {
				return
			}
			w.cfg.Fault(FaultMessageBefore)
			r.Messages = given
			err = w.places.Of(a).Connect(*a).Send(ctx, r, open[0].ID, open[0].Text)
			if ctx.Err() != nil {
				return
			}
			if !mayRetry(err) {
				if err == nil {
					w.cfg.Fault(FaultMessageAfter)
				}
				err = w.recordDelivery(ctx, open[0], err)
			}
		}
		if err == nil {
			failures = 0
			continue
		}
		failures++
		w.log.WarnContext(ctx, "a message is given again later", slog.String("task", t.ID), slog.Any("error", err))
		again := time.NewTimer(backoff(failures, maxRunRetry))
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
		}
	}
}

// mayRetry says whether a message that met the error may be taken later. If its run has ended, the agent may try again.
func mayRetry(err error) bool {
	switch fleet.ReasonOf(err) {
	case fleet.ReasonBackendUnavailable, fleet.ReasonAgentBusy, fleet.ReasonAgentOffline, fleet.ReasonTaskNotFound, fleet.ReasonNoRunningTask:
		return true
	}
	return false
}

// recordDelivery records what has become of the message: the agent has it, or err says why it never will.
func (w *worker) recordDelivery(ctx context.Context, m fleet.Message, err error) error {
	if err != nil {
		w.log.WarnContext(ctx, "a message was not delivered to its agent", slog.String("task", m.TaskID), slog.Any("error", err))
	}
	return w.store.Update(ctx, func(tx fleet.Tx) error {
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
			return state.RefuseMessage(tx, t, now, w.now(), fleet.ReasonOf(err), fleet.PublicMessage(err))
		}
		now.GivenAt = w.now()
		if err := tx.UpdateMessage(now); err != nil {
			return err
		}
		if now.GivenAt.Sub(now.CreatedAt) < w.cfg.MessageWait {
			return nil // its sender was told
		}
		return tx.Append(t.Event(fleet.EventTaskStep, now.GivenAt, "the agent was given the message that waited for it"))
	})
}

// deliverRest asks the host of a run that has ended whether the agent has received its open messages. Those that it has not received are for
// its next try, or are refused when the task ends.
func (w *worker) deliverRest(ctx context.Context, a *fleet.Agent, t *fleet.Task, open, given []fleet.Message) error {
	for _, m := range open {
		r := t.Run(true)
		r.Messages = given
		sent := w.ask(ctx, a, func(ctx context.Context) error { return w.places.Of(a).Connect(*a).Send(ctx, r, m.ID, m.Text) })
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case sent == nil:
			given = append(given, m)
		case mayRetry(sent):
			continue
		}
		if err := w.recordDelivery(ctx, m, sent); err != nil {
			return err
		}
	}
	return nil
}
