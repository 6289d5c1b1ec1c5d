package state

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"fleet/internal/fleet"
	"fleet/internal/notify"
)

// LogTail keeps the newest events of the log in memory, so that the callers who follow the log do not each read the store.
// While there are subscribers, a goroutine reads new events and notifies the subscribers.
type LogTail struct {
	store   fleet.Store
	lastSeq lastSeqReader

	mu        sync.Mutex
	begun     bool          // the tail has had its first read
	afterSeq  int64         // the tail begins after this Seq
	endSeq    int64         // and ends with this one
	events    []fleet.Event // every event in between; the elements never change, because readers use them without mu
	size      int           // of the events, in bytes of Text and Data
	err       error         // why the last read failed; nil if it did not
	sharesSeq int64         // Seq of the newest event that shared or unshared an agent; where the tail begins, if that is later

	subsMu sync.Mutex // guards stop, and held while a subscription begins or ends
	subs   notify.Subscribers
	stop   func() // ends the goroutine; nil if it does not run
}

// These limit the tail.
const (
	maxTailEvents = 1024
	maxTailBytes  = 1 << 20
)

// Subscribe returns a channel that receives a signal after the tail has looked for new events, even if it has failed to read
// them. Several reads may cause one signal.
func (t *LogTail) Subscribe() (_ <-chan struct{}, cancel func()) {
	t.subsMu.Lock()
	defer t.subsMu.Unlock()
	notified, remove := t.subs.Subscribe()
	if t.stop == nil {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		signal, unsubscribe := t.store.Subscribe()
		go func() {
			defer close(done)
			defer unsubscribe()
			t.follow(ctx, signal)
		}()
		t.stop = func() { cancel(); <-done }
	}
	return notified, func() { t.unsubscribe(remove) }
}

// Subscribers returns how many subscriptions there are.
func (t *LogTail) Subscribers() int { return t.subs.Len() }

func (t *LogTail) unsubscribe(remove func()) {
	t.subsMu.Lock()
	remove()
	stop := t.stop
	if t.subs.Len() > 0 {
		stop = nil
	} else {
		t.stop = nil
	}
	t.subsMu.Unlock()
	if stop != nil {
		stop()
	}
}

// follow reads new events after each signal, and notifies the subscribers, until the context is done.
func (t *LogTail) follow(ctx context.Context, signal <-chan struct{}) {
	for {
		select {
		case <-signal:
		case <-ctx.Done():
			return
		}
		_ = t.refresh(ctx) // subscribers get the error when they read
		t.subs.Notify()
	}
}

// refresh reads the events that were committed before the call.
func (t *LogTail) refresh(ctx context.Context) error {
	last, err := t.lastSeq.last(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		err = t.extend(ctx, last)
	}
	t.err = err
	return err
}

// Read returns the matching events after the Seq, at most limit, and the Seq up to which it has searched. f.SharedUIDs must
// be sorted. If ok is false, the tail does not have the events, or f has projects or a selector. Then the caller must read the store.
func (t *LogTail) Read(f fleet.EventFilter, after int64, limit int) (events []fleet.Event, upTo int64, ok bool) {
	t.mu.Lock()
	all, upTo, ok := t.events, t.endSeq, t.begun && t.err == nil && after >= t.afterSeq
	t.mu.Unlock()
	if !ok || len(f.Projects) > 0 || len(f.Selector) > 0 { // an event does not have the project and the labels of its agent
		return nil, 0, false
	}
	first, _ := slices.BinarySearchFunc(all, after+1, func(e fleet.Event, seq int64) int { return cmp.Compare(e.Seq, seq) })
	for _, e := range all[first:] {
		if !selects(f, e) {
			continue
		}
		if events = append(events, e); len(events) == limit {
			return events, e.Seq, true
		}
	}
	return events, max(upTo, after), true
}

// SharesRevision returns a number that grows when agents were shared or unshared. It may also grow without such a change.
func (t *LogTail) SharesRevision() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sharesSeq
}

// extend adds the events up to the Seq last, and may add later ones. If they are too many, the tail drops all its events and begins
// after last. The caller holds mu.
func (t *LogTail) extend(ctx context.Context, last int64) error {
	switch {
	case t.begun && last <= t.endSeq:
		return nil
	case !t.begun || last-t.endSeq > maxTailEvents:
		t.begun, t.afterSeq, t.endSeq, t.sharesSeq, t.events, t.size = true, last, last, last, nil, 0
		return nil
	}
	var more []fleet.Event
	err := t.store.View(ctx, func(tx fleet.ReadTx) (err error) {
		if last, err = tx.LastSeq(); err != nil {
			return err
		}
		more, err = tx.Events(fleet.EventFilter{}, fleet.EventWindow{After: t.endSeq, Limit: maxTailEvents})
		return err
	})
	if err != nil {
		return err
	}
	if len(more) == maxTailEvents {
		last = more[len(more)-1].Seq
	}
	t.endSeq = last
	t.events = append(t.events, more...) // does not change the part that readers use
	for _, e := range more {
		t.size += eventSize(e)
		if e.Type.ChangesVisibility() {
			t.sharesSeq = e.Seq
		}
	}
	drop := 0
	for ; len(t.events)-drop > maxTailEvents || t.size > maxTailBytes; drop++ {
		t.size -= eventSize(t.events[drop])
		t.afterSeq = t.events[drop].Seq
	}
	t.events = t.events[drop:]
	return nil
}

func eventSize(e fleet.Event) int { return len(e.Text) + len(e.Data) }

// selects reports whether the filter selects the event, without regard to its projects and its selector. f.SharedUIDs must be sorted.
func selects(f fleet.EventFilter, e fleet.Event) bool {
	return (f.Owner == "" || e.Owner == f.Owner || len(f.SharedUIDs) > 0 && containsSorted(f.SharedUIDs, e.AgentUID)) &&
		(f.AgentName == "" || strings.ToLower(e.AgentName) == strings.ToLower(f.AgentName)) && //nolint:staticcheck // as stores compare names, which EqualFold does not
		(f.AgentUID == "" || e.AgentUID == f.AgentUID) &&
		(f.TaskID == "" || e.TaskID == f.TaskID) &&
		(!f.WithoutDetail || e.Type != fleet.EventTaskDetail) &&
		(!f.WithoutOutput || !slices.Contains(fleet.OutputEvents, e.Type) || e.TaskID != "" && slices.Contains(f.OutputOf, e.TaskID)) &&
		(len(f.Types) == 0 || slices.Contains(f.Types, e.Type))
}

// containsSorted reports whether the sorted list contains s.
func containsSorted(sorted []string, s string) bool {
	_, found := slices.BinarySearch(sorted, s)
	return found
}
