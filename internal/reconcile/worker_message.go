package reconcile

import (
	"context"
	"log/slog"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// delivery delivers a run's messages in the background, one after the other, until there are no more.
type delivery struct {
	cancel context.CancelFunc
	done   chan struct{} // closed at the end
}

// end ends the delivery and waits until it has ended. A message that is being sent may or may not arrive; sending it again
// with the same id is safe.
func (d *delivery) end() {
	if d != nil {
		d.cancel()
		<-d.done
	}
}

// stepMessages starts a delivery if the followed task has undelivered messages and no delivery is running. If the task is being
// stopped, it ends the delivery.
func (w *worker) stepMessages(ctx context.Context, a *fleet.Agent, t *fleet.Task) error {
	f := w.follower
	if f.checks != nil {
		return nil // new messages wait for the next try, if there is one
	}
	if !t.StopRequestedAt.IsZero() {
		f.delivery.end()
		f.delivery = nil
		return nil
	}
	if f.delivery != nil {
		select {
		case <-f.delivery.done:
		default:
			return nil // it looks for more messages before it ends
		}
	}
	open, _, err := w.messages(ctx, t)
	if err != nil || len(open) == 0 {
		f.delivery = nil
		return err
	}
	ctx, cancel := context.WithCancel(f.ctx)
	d := &delivery{cancel: cancel, done: make(chan struct{})}
	f.delivery = d
	agent, task, run := *a, *t, t.Run()
	go func() {
		defer close(d.done)
		defer cancel()
		if err := catchPanic(func() error { w.deliver(ctx, &agent, &task, run); return nil }); err != nil {
			w.log.ErrorContext(ctx, "messages not delivered", slog.String("task", task.ID), slog.Any("error", err))
			_ = sleep(ctx, w.cfg.LeaseTTL) // the worker tries again when done is closed
		}
	}()
	return nil
}

// messages returns the messages of the task's run, see runMessages.
func (w *worker) messages(ctx context.Context, t *fleet.Task) (open, delivered []fleet.Message, err error) {
	if !t.HasMessages {
		return nil, nil, nil
	}
	err = w.store.View(ctx, func(tx fleet.ReadTx) (err error) {
		open, delivered, err = runMessages(tx, t)
		return err
	})
	return open, delivered, err
}

// runMessages returns the messages of the task's current run, oldest first: open ones and delivered ones. Messages that
// were delivered before the current try belong to an earlier run.
func runMessages(tx fleet.ReadTx, t *fleet.Task) (open, delivered []fleet.Message, err error) {
	all, err := tx.Messages(fleet.MessageFilter{TaskID: t.ID})
	for _, m := range all {
		switch {
		case m.Deliverable():
			open = append(open, *m)
		case m.PromptTry == 0 && m.RefusalReason == "" && (t.Try == 0 || !m.DeliveredAt.Before(t.DispatchedAt)):
			delivered = append(delivered, *m)
		}
	}
	return open, delivered, err
}

// deliver delivers the run's messages until there are no more, or ctx is done.
func (w *worker) deliver(ctx context.Context, a *fleet.Agent, t *fleet.Task, r fleet.Run) {
	for failures := 0; ctx.Err() == nil; {
		open, delivered, err := w.messages(ctx, t)
		if err == nil {
			if len(open) == 0 {
				return
			}
			w.cfg.Fault(FaultMessageBefore)
			r.Messages, r.Confirmed = delivered, open[0].FromTask != ""
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
		w.log.WarnContext(ctx, "message not delivered, retrying", slog.String("task", t.ID), slog.Any("error", err))
		_ = sleep(ctx, backoff(failures, maxRunRetryDelay))
	}
}

// mayRetry reports whether a message or an answer that failed with the error may be accepted later. The end of the
// run is not a reason to give up, because the agent may get another try.
func mayRetry(err error) bool {
	switch fleet.ReasonOf(err) {
	case fleet.ReasonBackendUnavailable, fleet.ReasonAgentBusy, fleet.ReasonAgentOffline, fleet.ReasonTaskNotFound, fleet.ReasonNoRunningTask:
		return true
	}
	return false
}

// recordDelivery records that the agent has received the message or, if err is not nil, that it will never receive it. If an
// agent that accepts no messages gets a message from a task, the message becomes a part of its next prompt instead.
func (w *worker) recordDelivery(ctx context.Context, m fleet.Message, err error) error {
	if err != nil && (m.FromTask == "" || fleet.ReasonOf(err) != fleet.ReasonUnimplemented) {
		w.log.WarnContext(ctx, "message refused", slog.String("task", m.TaskID), slog.Any("error", err))
	}
	return w.store.Update(ctx, func(tx fleet.Tx) error {
		current, messageErr := fleet.First(tx.Messages(fleet.MessageFilter{ID: m.ID}))
		t, taskErr := tx.Task(m.TaskID)
		switch {
		case messageErr != nil:
			return messageErr
		case taskErr != nil:
			return taskErr
		case current == nil || !current.Open() || t == nil:
			return nil
		case err != nil && current.FromTask != "" && fleet.ReasonOf(err) == fleet.ReasonUnimplemented:
			current.PromptTry = fleet.NextPrompt
			return tx.Update(current)
		case err != nil:
			return state.RefuseMessage(tx, t, current, w.now(), fleet.ReasonOf(err), fleet.PublicMessage(err))
		}
		current.DeliveredAt = w.now()
		if err := tx.Update(current); err != nil {
			return err
		}
		if current.DeliveredAt.Sub(current.CreatedAt) < w.cfg.MessageWait {
			return nil // its sender is still waiting, and gets the result
		}
		return tx.Append(t.Event(fleet.EventTaskStep, current.DeliveredAt, "the agent has received the waiting message"))
	})
}

// resendOpenMessages sends the open messages of an ended run again, to find out which of them the agent has received: its host accepts
// only those. The others are delivered to the next try, or are refused when the task ends.
func (w *worker) resendOpenMessages(ctx context.Context, a *fleet.Agent, t *fleet.Task, open, delivered []fleet.Message) error {
	for _, m := range open {
		r := t.Run()
		r.Messages, r.Confirmed = delivered, m.FromTask != ""
		sendErr := w.shortCall(ctx, a, func(ctx context.Context) error { return w.places.Of(a).Connect(*a).Send(ctx, r, m.ID, m.Text) })
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case sendErr == nil:
			delivered = append(delivered, m)
		case mayRetry(sendErr):
			continue
		}
		if err := w.recordDelivery(ctx, m, sendErr); err != nil {
			return err
		}
	}
	return nil
}
