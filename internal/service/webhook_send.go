package service

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"fleet/internal/fleet"
)

// These limit the loop of SendWebhooks.
const (
	sendPause     = 20 * time.Millisecond // pause after each round, so that many commits share one
	sendIdle      = time.Second           // after a round without webhooks
	webhookReread = time.Minute           // webhooks are read again this often, because tokens of owners are revoked without an event
	eventBatch    = 256                   // events of a webhook in one transaction
	sendBatch     = 32                    // deliveries of a webhook that are read at a time
	sendTimeout   = 5 * time.Second       // how long a goroutine sends such deliveries before they are read again
	// cursorInterval is the number of events without a delivery after which the cursor of a webhook is written.
	cursorInterval = 1000
)

// SendWebhooks sends the events of the log to the webhooks until ctx is done or the store fails. Only one process of the fleet
// may run it at a time. The log is the outbox: it contains exactly the events that were committed. The deliveries of an event
// and the webhook's cursor are written in one transaction, so that a crash repeats no delivery and loses none. A crash during
// an attempt repeats the attempt, with the same id.
func (s *Service) SendWebhooks(ctx context.Context) error {
	if s.cfg.Webhooks.Sender == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	l := &sendLoop{s: s, hooks: map[string]*hookState{}, wake: make(chan struct{}, 1)}
	defer l.senders.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	signal, unsubscribe := s.store.Subscribe()
	defer func() { unsubscribe() }()
	for {
		if err := l.sendErr.Load(); err != nil {
			return *err // otherwise, receivers would get the same deliveries again and again while the store does not work
		}
		limitedCtx, storeAnswered, stop := withStallLimit(ctx, s.cfg.LeaseTTL)
		next, err := l.runOnce(limitedCtx, ctx, storeAnswered)
		stop()
		if err != nil {
			return err
		}
		pause := sendPause
		if len(l.hooks) == 0 {
			pause = sendIdle
		}
		if enabled := len(l.hooks) > 0; enabled != l.tailed { // new events are kept in memory only if there are webhooks
			unsubscribe()
			if l.tailed = enabled; enabled {
				signal, unsubscribe = s.tail.Subscribe()
			} else {
				signal, unsubscribe = s.store.Subscribe()
			}
			continue
		}
		due := time.After(max(0, next.Sub(s.now())+time.Millisecond))
		select {
		case <-signal:
		case <-l.wake:
		case <-due:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// sendLoop is a running call of SendWebhooks. Only the goroutine of the call uses it, except that the goroutines that send use wake
// and sendErr.
type sendLoop struct {
	s       *Service
	hooks   map[string]*hookState // the enabled webhooks, by uid
	tailed  bool                  // it is subscribed to the tail, so the tail has the new events
	seenSeq int64                 // changes of webhooks up to this Seq are known
	readAt  time.Time             // when the webhooks were read
	senders sync.WaitGroup        // the goroutines that send
	wake    chan struct{}         // has a value after a goroutine has ended
	sendErr atomic.Pointer[error] // why the end of an attempt could not be recorded; nil if there was no such failure
}

// hookState is an enabled webhook with the state of its deliveries. It sends one delivery at a time, so that a receiver that accepts
// them gets the events in their order.
type hookState struct {
	*fleet.Webhook
	p      fleet.Principal // its owner: it sends only events that p may see
	filter fleet.EventFilter
	cursor int64     // events up to it were read; at least that of the webhook
	full   bool      // too many deliveries wait
	next   time.Time // when the next delivery is due; zero if that must be read from the store

	current atomic.Pointer[fleet.Webhook] // the current webhook; nil if it no longer sends
	sending atomic.Bool                   // a goroutine sends its deliveries
	hasSent atomic.Bool                   // such a goroutine has ended since the last round
	failing bool                          // the last attempt failed; for the goroutine that sends
}

// runOnce does everything that is due, and returns the time at which something is due next. The goroutines that it starts send until
// sendCtx is done. It calls storeAnswered whenever the store has answered.
func (l *sendLoop) runOnce(ctx, sendCtx context.Context, storeAnswered func()) (next time.Time, err error) {
	now := l.s.now()
	next = now.Add(webhookReread)
	if err := l.refresh(ctx, now); err != nil {
		return next, err
	}
	for _, h := range l.hooks {
		storeAnswered()
		if h.hasSent.Swap(false) {
			h.next, h.full = time.Time{}, false
		}
		if err := l.queueEvents(ctx, h); err != nil {
			return next, err
		}
		storeAnswered()
		if err := l.sendDue(ctx, sendCtx, h); err != nil {
			return next, err
		}
		if h.next.After(now) && h.next.Before(next) {
			next = h.next
		}
	}
	return next, nil
}

// refresh reads the webhooks if they have changed, or if it last read them webhookReread ago.
func (l *sendLoop) refresh(ctx context.Context, now time.Time) error {
	last, err := l.s.store.LastSeq(ctx)
	if err != nil {
		return err
	}
	if mustReread := now.Sub(l.readAt) >= webhookReread; mustReread {
		if err := l.writeCursors(ctx); err != nil {
			return err
		}
	} else if changed, err := l.changed(ctx, last); err != nil || !changed {
		return err
	}
	all, err := l.s.allWebhooks(ctx)
	if err != nil {
		return err
	}
	known := l.hooks
	for _, h := range known {
		h.current.Store(nil)
	}
	l.hooks, l.seenSeq, l.readAt = map[string]*hookState{}, last, now
	for _, w := range all {
		if w.DisabledReason != "" {
			continue
		}
		h := known[w.UID]
		if h == nil {
			h = &hookState{cursor: w.Cursor, failing: !w.FailingSince.IsZero()}
		}
		h.Webhook, h.next, h.full, h.cursor = w, time.Time{}, false, max(h.cursor, w.Cursor)
		if err := l.authorize(ctx, h); err != nil {
			return err
		}
		if h.DisabledReason == "" {
			l.hooks[w.UID] = h
			h.current.Store(w)
		}
	}
	return nil
}

// changed reports whether webhooks have changed after l.seenSeq. last is the Seq of the newest event. If nothing has changed, changed
// updates l.seenSeq.
func (l *sendLoop) changed(ctx context.Context, last int64) (changed bool, err error) {
	if last == l.seenSeq {
		return false, nil
	}
	events, upTo, err := l.read(ctx, fleet.EventFilter{Types: []fleet.EventType{fleet.EventWebhookChanged}}, l.seenSeq, 1)
	if err == nil && len(events) == 0 {
		l.seenSeq = upTo
	}
	return len(events) > 0, err
}

// read returns the matching events after the Seq, at most limit, and the Seq up to which it has searched. It reads new events from
// memory. It reads from the store if they are old, or if the filter has a selector or projects and an event matches the rest of it.
func (l *sendLoop) read(ctx context.Context, f fleet.EventFilter, after int64, limit int) (events []fleet.Event, upTo int64, err error) {
	broad := f
	broad.Projects, broad.Selector = nil, nil
	events, upTo, ok := l.s.tail.Read(broad, after, limit)
	if l.tailed && ok && (len(events) == 0 || len(f.Projects) == 0 && len(f.Selector) == 0) {
		return events, upTo, nil
	}
	err = l.s.store.View(ctx, func(tx fleet.ReadTx) error {
		if upTo, err = tx.LastSeq(); err != nil {
			return err
		}
		events, err = tx.Events(f, fleet.EventWindow{After: after, Limit: limit})
		return err
	})
	if len(events) == limit {
		upTo = events[limit-1].Seq
	}
	return events, upTo, err
}

// writeCursors writes the cursors of webhooks that have read many events since their last delivery. So the next process that sends
// does not read these events again.
func (l *sendLoop) writeCursors(ctx context.Context) error {
	for _, h := range l.hooks {
		if h.cursor-h.Cursor < cursorInterval {
			continue
		}
		err := l.s.store.Update(ctx, func(tx fleet.Tx) error {
			w, err := l.s.webhooks().read(tx, h.Key())
			if err != nil || w == nil || w.UID != h.UID || w.Cursor >= h.cursor {
				return err
			}
			w.Cursor = h.cursor
			return fleet.PutResource(tx, fleet.WebhookKind, w.Key(), w)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// authorize sets h.p and h.filter according to what the webhook's owner may see now. It disables a webhook that was created with a
// token if the owner no longer has a valid token.
func (l *sendLoop) authorize(ctx context.Context, h *hookState) (err error) {
	if h.p, err = l.s.withLastGroups(ctx, h.Principal()); err != nil {
		return err
	}
	if h.ByToken {
		t, err := view(ctx, l.s.store, func(tx fleet.ReadTx) (*fleet.Token, error) {
			return fleet.CurrentToken(tx.Tokens(fleet.TokenFilter{Name: h.Owner}))
		})
		if err != nil {
			return err
		}
		if t == nil || !t.Valid(l.s.now()) {
			h.DisabledReason = "the token of its owner was revoked or has expired"
			return l.s.store.Update(ctx, func(tx fleet.Tx) error {
				w, err := l.s.webhooks().read(tx, h.Key())
				if err != nil || w == nil || w.UID != h.UID || w.DisabledReason != "" {
					return err
				}
				return l.s.disableWebhook(tx, w, h.DisabledReason)
			})
		}
		h.p.Scope, h.p.Projects = min(h.p.Scope, t.Scope), intersect(h.p.Projects, t.Projects)
	}
	h.filter = fleet.EventFilter{Types: h.EventTypes()}
	h.filter.Selector, err = fleet.ParseSelector("selector", h.Selector)
	return err
}

// intersect returns the projects that both lists allow; an empty list allows all.
func intersect(a, b []string) []string {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	both := slices.DeleteFunc(slices.Clone(a), func(name string) bool { return !slices.Contains(b, name) })
	if len(both) == 0 {
		return []string{"/"} // no project has this name
	}
	return both
}

// queueEvents adds the deliveries of the events that the webhook has not read.
func (l *sendLoop) queueEvents(ctx context.Context, h *hookState) error {
	for !h.full && h.cursor < l.seenSeq {
		events, upTo, err := l.newEvents(ctx, h)
		if err != nil {
			return err
		}
		if len(events) > 0 {
			if upTo, err = l.addDeliveries(ctx, h, events, upTo); err != nil {
				return err
			}
			h.next = time.Time{}
		}
		if upTo <= h.cursor { // the webhook has changed
			return nil
		}
		h.cursor = upTo
	}
	return nil
}

// newEvents returns the next events that the webhook sends, and the Seq up to which it has searched.
func (l *sendLoop) newEvents(ctx context.Context, h *hookState) (events []fleet.Event, upTo int64, err error) {
	sel, err := l.s.selectAgents(ctx, h.p, "")
	if err != nil {
		return nil, 0, err
	}
	f := h.filter
	f.Owner, f.SharedUIDs, f.Projects = sel.owner, sel.sharedUIDs, sel.projects
	events, upTo, err = l.read(ctx, f, h.cursor, eventBatch)
	// Later events wait until it is known whether webhooks have changed before them.
	return slices.DeleteFunc(slices.Clone(events), func(e fleet.Event) bool { return e.Seq > l.seenSeq || !h.Selects(e) }), min(upTo, l.seenSeq), err
}

// addDeliveries adds the deliveries of the events, and returns the Seq up to which it has added them.
func (l *sendLoop) addDeliveries(ctx context.Context, h *hookState, events []fleet.Event, upTo int64) (added int64, err error) {
	err = l.s.store.Update(ctx, func(tx fleet.Tx) error {
		added, h.full = h.cursor, false
		w, err := l.s.webhooks().read(tx, h.Key())
		if err != nil || w == nil || w.UID != h.UID || w.DisabledReason != "" || w.Cursor > h.cursor {
			return err // the event of the change makes the loop read the webhook again
		}
		counts, err := tx.CountDeliveries(w.UID)
		if err != nil {
			return err
		}
		room := l.s.cfg.Webhooks.MaxWaiting
		for _, c := range counts {
			if c.Status == fleet.DeliveryWaiting {
				room -= c.Number
			}
		}
		to := upTo
		if h.full = room < len(events); h.full {
			if room <= 0 {
				return nil
			}
			events = events[:room]
			to = events[room-1].Seq
		}
		now := l.s.now()
		for _, e := range events {
			if e.AgentUID != "" { // a share may have ended since the events were read
				access, err := accessToAgent(tx, h.p, e.Owner, e.AgentUID)
				if err != nil {
					return err
				}
				if access == fleet.AccessNone {
					continue
				}
			}
			d, err := l.s.newDelivery(w, e, now)
			if err != nil {
				return err
			}
			if err := tx.Insert(d); err != nil {
				return err
			}
		}
		w.Cursor, added = to, to
		return fleet.PutResource(tx, fleet.WebhookKind, w.Key(), w)
	})
	return added, err
}

// sendDue starts a goroutine that sends the deliveries that are due, unless one is running. It sends until sendCtx is done.
func (l *sendLoop) sendDue(ctx, sendCtx context.Context, h *hookState) error {
	now := l.s.now()
	if h.sending.Load() || h.next.After(now) {
		return nil
	}
	due, err := view(ctx, l.s.store, func(tx fleet.ReadTx) ([]*fleet.Delivery, error) {
		return tx.Deliveries(fleet.DeliveryFilter{WebhookUID: h.UID, Waiting: true, Limit: sendBatch})
	})
	if err != nil {
		return err
	}
	h.next = now.Add(webhookReread)
	if i := slices.IndexFunc(due, func(d *fleet.Delivery) bool { return d.NextAt.After(now) }); i >= 0 {
		h.next = due[i].NextAt
		due = due[:i]
	}
	if len(due) == 0 {
		return nil
	}
	h.sending.Store(true)
	l.senders.Go(func() {
		if err := l.s.send(sendCtx, h, due); err != nil {
			l.sendErr.Store(&err)
		}
		h.hasSent.Store(true)
		h.sending.Store(false)
		select {
		case l.wake <- struct{}{}:
		default:
		}
	})
	return nil
}

// send sends the deliveries one after the other, for at most sendTimeout and one attempt more. It fails if it cannot record the
// outcome of an attempt. That delivery is then sent again.
func (s *Service) send(ctx context.Context, h *hookState, due []*fleet.Delivery) error {
	begun := time.Now()
	for _, d := range due {
		w := h.current.Load()
		if w == nil || ctx.Err() != nil || time.Since(begun) > sendTimeout { // others may be due by now
			return nil
		}
		if err := s.attempt(ctx, h, w, d); err != nil {
			return fmt.Errorf("record the attempt of the delivery %s of the webhook %s: %w", d.ID, w.Key(), err)
		}
	}
	return nil
}

// attempt sends the delivery and records the outcome.
func (s *Service) attempt(ctx context.Context, h *hookState, w *fleet.Webhook, d *fleet.Delivery) error {
	now := s.now()
	post := fleet.WebhookRequest{URL: w.URL, ID: d.ID, At: now, Body: d.Body}
	for _, salt := range w.ValidSalts(now) {
		secret, err := s.webhookSecret(ctx, w.UID, salt)
		if err != nil {
			return err
		}
		post.Secrets = append(post.Secrets, secret)
	}
	began := time.Now()
	result := s.cfg.Webhooks.Sender.Send(ctx, post)
	if ctx.Err() != nil {
		return ctx.Err() // the successor repeats it
	}
	a := fleet.DeliveryAttempt{At: now, Took: time.Since(began).Round(time.Millisecond), Code: result.Code, Response: result.Body, Error: result.Error}
	jitter := rand.Float64() //nolint:gosec // it spreads load
	var outcome fleet.DeliveryStatus
	ctx, cancel := context.WithTimeout(ctx, s.cfg.LeaseTTL)
	defer cancel()
	err := s.store.Update(ctx, func(tx fleet.Tx) error {
		found, err := fleet.First(tx.Deliveries(fleet.DeliveryFilter{ID: d.ID}))
		if err != nil || found == nil {
			return err
		}
		found.RecordAttempt(a, result.RetryAfter, jitter)
		outcome = found.Status
		if err := tx.Update(found); err != nil || a.Accepted() && !h.failing {
			return err
		}
		return s.recordFailingSince(tx, w, a)
	})
	if err == nil {
		h.failing = !a.Accepted()
		s.cfg.Webhooks.OnAttempt(outcome, a.Took)
	}
	return err
}

// recordFailingSince records in the webhook since when its attempts have failed. It disables the webhook if they have failed for
// too long, or if the receiver says that it is gone.
func (s *Service) recordFailingSince(tx fleet.Tx, sent *fleet.Webhook, a fleet.DeliveryAttempt) error {
	w, err := s.webhooks().read(tx, sent.Key())
	if err != nil || w == nil || w.UID != sent.UID || w.DisabledReason != "" {
		return err
	}
	switch {
	case a.Accepted():
		w.FailingSince = time.Time{}
	case a.Gone():
		return s.disableWebhook(tx, w, "its receiver answers 410 Gone")
	case !w.FailingSince.IsZero() && a.At.Sub(w.FailingSince) >= fleet.WebhookFailureLimit:
		return s.disableWebhook(tx, w, "all attempts of three days have failed; the last one: "+a.Text())
	case w.FailingSince.IsZero():
		w.FailingSince = a.At
	default:
		return nil
	}
	// There is no event: a webhook that sends all events would send this one too, and could then fail and recover forever.
	return fleet.PutResource(tx, fleet.WebhookKind, w.Key(), w)
}

// disableWebhook disables the webhook, with an event that says that it needs attention.
func (s *Service) disableWebhook(tx fleet.Tx, w *fleet.Webhook, why string) error {
	w.DisabledReason, w.UpdatedAt = why, s.now()
	if err := fleet.PutResource(tx, fleet.WebhookKind, w.Key(), w); err != nil {
		return err
	}
	e := s.webhooks().newEvent(w, "was disabled: "+why)
	e.Status = fleet.WebhookDisabled
	return tx.Append(e)
}
