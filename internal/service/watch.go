package service

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// Limits of Watch, in events unless another unit is given.
const (
	MaxWatchEvents      = 10000
	defaultWatchEvents  = 1000
	MaxOutputOf         = 100 // tasks
	watchBatch          = 256
	defaultNewestEvents = 50
)

// WatchRequest selects events.
type WatchRequest struct {
	Cursor    string        // continue after it; "" begins with the oldest event, "now" with the next one, "newest" with the newest MaxEvents
	AgentName string        // "papi", or "papi@alice" for alice's; "" means all agents
	TaskID    string        // id or a prefix of it; "" means all tasks
	Selector  string        // only events of tasks, or else of agents, whose labels match; see fleet.ParseSelector
	Details   bool          // with events of the type EventTaskDetail
	Quiet     bool          // leave out output, steps and messages, except those of the tasks in OutputOf
	OutputOf  []string      // ids of tasks; only with Quiet
	Follow    bool          // wait for future events
	Wait      time.Duration // with Follow: how long to wait; negative means until the context is done
	MaxEvents int           // 0 means 1000 without Follow and no limit with Follow; with the cursor "newest", 50 past events
}

// Watch sends the matching events in order, in batches, each with the cursor to continue from. The last batch may be empty.
// Watch returns nil at the end of the log. With Follow, it returns nil when the time is over, MaxEvents were sent, or the
// watched task has ended. A slow receiver does not delay other calls.
//
// When an agent is no longer shared with the caller, its events end at once. The caller gets an agent_unshared event that
// is not in the log. A watch of that agent or of its task ends with a NotFound error.
func (s *Service) Watch(ctx context.Context, r WatchRequest, send func(events []fleet.Event, cursor string) error) error {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return err
	}
	w := &watch{s: s, p: p, ref: r.AgentName, filter: fleet.EventFilter{TaskID: r.TaskID, WithoutDetail: !r.Details, WithoutOutput: r.Quiet, OutputOf: r.OutputOf}, left: -1}
	if w.filter.Selector, err = fleet.ParseSelector("selector", r.Selector); err != nil {
		return err
	}
	if err := onOwnStack(func() error { return w.begin(ctx, r) }); err != nil {
		return err
	}
	var signal <-chan struct{}
	if r.Follow && !w.alreadyEnded {
		var cancel func()
		signal, cancel = s.tail.Subscribe()
		defer cancel()
	}
	var timeout <-chan time.Time
	if r.Follow && r.Wait >= 0 {
		timer := time.NewTimer(r.Wait)
		defer timer.Stop()
		timeout = timer.C
	}
	for lastRound, woken := !r.Follow || w.alreadyEnded, false; ; {
		more, sent, err := w.next(ctx, woken, send)
		switch {
		case err != nil:
			return err
		case w.left == 0 || w.ended:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case more && timeout == nil:
			continue
		case more:
			select {
			case <-timeout:
				return nil
			default:
				continue
			}
		case lastRound:
			if sent == 0 {
				return send(nil, w.cursor())
			}
			return nil
		}
		fleet.ReleaseSlot(ctx)
		select {
		case <-signal:
			woken = true
		case <-timeout:
			lastRound, woken = true, false
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// watch is one running call of Watch.
type watch struct {
	s            *Service
	p            fleet.Principal
	ref          string // of the watched agent; empty if all are watched
	filter       fleet.EventFilter
	after        int64
	left         int  // events that may still be sent; negative means no limit
	ended        bool // the end of the watched task was sent
	alreadyEnded bool // the watched task had ended before the call

	shares         *state.Shares // the shares that the filter was derived from
	sharesRevision int64         // the tail's SharesRevision when the shares were read
	unshared       []fleet.Event // events about agents that are no longer shared, not sent yet
}

func (w *watch) cursor() string { return strconv.FormatInt(w.after, 10) }

// begin checks the request, and sets the filter and the position from which the watch starts.
func (w *watch) begin(ctx context.Context, r WatchRequest) error {
	w.sharesRevision = w.s.tail.SharesRevision()
	if _, err := w.refreshShares(ctx); err != nil {
		return err
	}
	switch {
	case r.MaxEvents < 0 || r.MaxEvents > MaxWatchEvents:
		return fleet.InvalidField("max_events", "max_events is %d: give 1 to %d", r.MaxEvents, MaxWatchEvents)
	case len(r.OutputOf) > MaxOutputOf:
		return fleet.InvalidField("output_of", "output_of names %d tasks: give at most %d", len(r.OutputOf), MaxOutputOf)
	case r.MaxEvents > 0:
		w.left = r.MaxEvents
	case !r.Follow:
		w.left = defaultWatchEvents
	}
	if r.TaskID != "" || r.Cursor == "now" || r.Cursor == "newest" {
		err := w.s.store.View(ctx, func(tx fleet.ReadTx) (err error) { // one view, so that the end of a task that it finds active comes after the cursor
			if r.TaskID != "" {
				t, err := w.s.task(tx, w.p, r.TaskID, fleet.AccessView)
				if err != nil {
					return err
				}
				w.alreadyEnded, w.filter.TaskID = !t.Active(), t.ID // a caller may give a prefix of the id
			}
			switch r.Cursor {
			case "now":
				w.after, err = tx.LastSeq()
			case "newest":
				w.after, err = beforeNewest(tx, w.filter, cmp.Or(r.MaxEvents, defaultNewestEvents))
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	if r.Cursor == "" || r.Cursor == "now" || r.Cursor == "newest" {
		return nil
	}
	seq, err := strconv.ParseInt(r.Cursor, 10, 64)
	if err != nil || seq < 0 {
		return fleet.InvalidField("cursor", "cursor %q is not a cursor: give the cursor of an event or an answer, \"now\" or \"newest\"", fleet.Shorten(r.Cursor, 40))
	}
	last, err := w.s.store.LastSeq(ctx)
	if err != nil {
		return err
	}
	if seq > last {
		return fleet.InvalidField("cursor", "cursor %q is beyond the end of the log, so it belongs to another log: watch from the beginning, or from \"now\"", r.Cursor)
	}
	w.after = seq
	if seq == 0 { // begin with the oldest event, whatever its Seq
		return nil
	}
	return w.s.store.View(ctx, func(tx fleet.ReadTx) error {
		oldest, err := tx.Events(fleet.EventFilter{}, fleet.EventWindow{Limit: 1})
		if err == nil && len(oldest) == 1 && seq < oldest[0].Seq-1 {
			err = fleet.Invalid(fleet.ReasonCursorExpired, "cursor", "events after cursor %q were removed, because their retention period is over: read the state again, and watch from \"now\"", r.Cursor)
		}
		return err
	})
}

// beforeNewest returns the cursor before the newest n matching events.
func beforeNewest(tx fleet.ReadTx, f fleet.EventFilter, n int) (int64, error) {
	events, err := tx.Events(f, fleet.EventWindow{Newest: true, Limit: n})
	if err != nil || len(events) == 0 {
		return 0, err
	}
	return events[0].Seq - 1, nil
}

// next sends the next batch. more reports whether there may be further events now, and sent is the number of events in the batch.
// woken means that the tail has notified the call.
func (w *watch) next(ctx context.Context, woken bool, send func([]fleet.Event, string) error) (more bool, sent int, err error) {
	limit := watchBatch
	if w.left >= 0 {
		limit = min(limit, w.left)
	}
	events, upTo, err := w.read(ctx, woken, limit)
	if err != nil {
		return false, 0, err
	}
	if len(events) < limit {
		w.after = max(w.after, upTo)
	} else {
		w.after = events[len(events)-1].Seq
	}
	more = len(events) == limit
	for i := range w.unshared { // without copies of events, which would enlarge the stacks of all watchers
		w.unshared[i].Seq = w.after
	}
	events, w.unshared = append(events, w.unshared...), nil
	if len(events) == 0 {
		return false, 0, nil
	}
	if w.left > 0 {
		w.left = max(0, w.left-len(events))
	}
	for i := range events {
		w.ended = w.ended || w.filter.TaskID != "" && events[i].Type == fleet.EventTaskEnded
	}
	if err := send(events, w.cursor()); err != nil {
		return false, 0, err
	}
	if woken {
		w.s.cfg.OnEventSent(w.s.now().Sub(events[0].Time))
	}
	return more, len(events), nil
}

// read returns the next events, and the Seq up to which it has searched. A woken call finds them in memory unless it is far
// behind, because many calls may be woken at the same time.
func (w *watch) read(ctx context.Context, woken bool, limit int) (events []fleet.Event, upTo int64, err error) {
	for woken {
		events, upTo, ok := w.s.tail.Read(w.filter, w.after, limit)
		if !ok {
			break
		}
		revision := w.s.tail.SharesRevision() // after the read, so that the events that were read are not newer
		if revision == w.sharesRevision || w.p.Admin() {
			return events, upTo, nil
		}
		w.sharesRevision = revision
		changed := false
		if err := onOwnStack(func() (err error) { changed, err = w.refreshShares(ctx); return err }); err != nil {
			return nil, 0, err
		}
		if !changed {
			return events, upTo, nil
		}
	}
	err = onOwnStack(func() error {
		for {
			err := w.s.store.View(ctx, func(tx fleet.ReadTx) (err error) {
				if upTo, err = tx.LastSeq(); err != nil {
					return err
				}
				events, err = tx.Events(w.filter, fleet.EventWindow{After: w.after, Limit: limit})
				return err
			})
			if err != nil {
				return err
			}
			if changed, err := w.refreshShares(ctx); err != nil || !changed {
				return err
			}
		}
	})
	return events, upTo, err
}

// refreshShares updates the filter if shares have changed, and reports whether the filter may have changed. If so, the caller
// reads its events again. For each agent that is no longer shared, refreshShares adds an event to w.unshared.
func (w *watch) refreshShares(ctx context.Context) (changed bool, err error) {
	if w.p.Admin() && w.shares != nil {
		return false, nil
	}
	if err := w.s.snap.Refresh(ctx); err != nil {
		return false, err
	}
	before, current := w.shares, w.s.snap.Shares()
	if before == current {
		return false, nil
	}
	w.shares = current
	sel, err := w.s.selectAgents(ctx, w.p, w.ref)
	if err != nil {
		return false, err
	}
	w.filter.AgentName, w.filter.Owner, w.filter.SharedUIDs, w.filter.Projects, w.filter.AgentUID = sel.name, sel.owner, sel.sharedUIDs, sel.projects, sel.uid
	if before == nil {
		return true, nil
	}
	if w.filter.TaskID != "" {
		return true, w.s.store.View(ctx, func(tx fleet.ReadTx) error {
			_, err := w.s.task(tx, w.p, w.filter.TaskID, fleet.AccessView)
			return err
		})
	}
	for _, uid := range before.SharedWith(w.p) {
		a := before.Agent(uid)
		if _, isShared := slices.BinarySearch(sel.sharedUIDs, uid); !isShared && (w.filter.AgentName == "" || strings.EqualFold(a.Name, w.filter.AgentName)) {
			e := a.Event(fleet.EventAgentUnshared, w.s.now(), "agent is no longer shared with "+w.p.Name)
			e.Status = "" // the caller may no longer see the agent's state
			w.unshared = append(w.unshared, *e)
		}
	}
	return true, nil
}

// onOwnStack calls f in another goroutine and waits for it. A store needs a large stack, which a watcher's goroutine
// would keep while it waits for events.
func onOwnStack(f func() error) (err error) {
	panicked := make(chan any, 1)
	go func() {
		defer func() { panicked <- recover() }()
		err = f()
	}()
	if p := <-panicked; p != nil {
		panic(p)
	}
	return err
}
