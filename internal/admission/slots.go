package admission

import (
	"container/list"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"fleet/internal/fleet"
)

// Slots limits how many calls the server works on at the same time. Further calls wait. Each principal has a queue for
// its waiting calls. A free slot goes to the first call of the next queue, round robin. So a principal with many
// waiting calls delays each call of another principal by at most one call.
//
// A call keeps its slot until the call ends or waits for something; see fleet.ReleaseSlot.
type Slots struct {
	limits      atomic.Pointer[slotLimits]
	cpus        int
	log         *slog.Logger
	observeWait func(time.Duration)
	loggedAt    atomic.Int64 // when a refusal was logged, in Unix seconds

	// state has the number of calls with a slot in its lower half, and the number of waiting calls in its upper half. A
	// call that finds a free slot needs only state, and not mu.
	state atomic.Uint64

	mu       sync.Mutex            // must be held to add or remove waiting calls
	queues   map[string]*callQueue // the queues that are not empty, by principal
	rotation list.List             // the same queues; the first queue gets the next slot
}

// slotLimits are the limits of Slots.
type slotLimits struct {
	slots      uint64        // the number of slots
	maxWaiting int           // the most waiting calls of a principal; 0 means no limit
	maxWait    time.Duration // how long a call may wait; 0 means no limit
}

// oneWaiting is a waiting call in Slots.state.
const oneWaiting = 1 << 32

// callQueue has the waiting calls of a principal.
type callQueue struct {
	principal string
	calls     list.List // of *waitingCall
	element   *list.Element
}

// waitingCall is a call that waits for a slot.
type waitingCall struct {
	queue   *callQueue
	element *list.Element // the call's place in the queue; nil once it has a slot or has stopped waiting
	ready   chan struct{} // closed when the call has a slot
}

// noSlotRetryAfter is how long a caller should wait before it repeats a call that got no slot.
const noSlotRetryAfter = time.Second

// NewSlots returns the slots of a server that uses cpus CPUs. A nil *Slots has a slot for every call. observeWait is
// called with the time that a call has waited.
func NewSlots(limits fleet.Limits, cpus int, log *slog.Logger, observeWait func(time.Duration)) *Slots {
	s := &Slots{cpus: cpus, log: log, observeWait: observeWait, queues: map[string]*callQueue{}}
	s.SetLimits(limits)
	return s
}

// SetLimits replaces the limits. Without a limit of calls, every call has a slot. Calls that wait get the slots that are added;
// calls that have slots keep them.
func (s *Slots) SetLimits(limits fleet.Limits) {
	if s == nil {
		return
	}
	l := &slotLimits{slots: oneWaiting - 1, maxWaiting: limits.WaitingCalls, maxWait: limits.WaitingTime}
	if limits.CallsPerCPU > 0 {
		l.slots = uint64(limits.CallsPerCPU) * uint64(s.cpus) //nolint:gosec // neither is negative
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits.Store(l)
	s.grantFree()
}

// Waiting returns how many calls wait.
func (s *Slots) Waiting() int {
	if s == nil {
		return 0
	}
	return int(s.state.Load() / oneWaiting) //nolint:gosec // a number of calls
}

// Working returns how many calls have a slot.
func (s *Slots) Working() int {
	if s == nil {
		return 0
	}
	return int(s.state.Load() % oneWaiting)
}

// Take waits for a slot for a call of the principal. It fails with LIMIT_REACHED if too many calls of the principal
// wait, or if the call has waited too long. It returns the context's error if the context ends first. Give the slot
// back with Release.
func (s *Slots) Take(ctx context.Context, principal string) error {
	if s == nil || s.tryTake() {
		return nil
	}
	return s.wait(ctx, principal)
}

// Release gives a slot back. The next waiting call gets it.
func (s *Slots) Release() {
	if s != nil && s.state.Add(^uint64(0)) >= oneWaiting {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.grantFree()
	}
}

// tryTake takes a slot if one is free and no call waits, and reports whether it did.
func (s *Slots) tryTake() bool {
	slots := s.limits.Load().slots
	for n := s.state.Load(); n < slots; n = s.state.Load() {
		if s.state.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// wait is Take for a call that has found no free slot.
func (s *Slots) wait(ctx context.Context, principal string) error {
	c, err := s.takeOrEnqueue(principal)
	if err != nil {
		s.logRefusal(ctx, principal, err)
	}
	if c == nil {
		return err
	}
	limit := s.limits.Load().maxWait
	started := time.Now()
	defer func() { s.observeWait(time.Since(started)) }()
	var timeout <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-c.ready:
		return nil
	case <-ctx.Done():
		if !s.withdraw(c) { // the call has got a slot just now
			s.Release()
		}
		return ctx.Err()
	case <-timeout:
		if !s.withdraw(c) {
			return nil
		}
	}
	err = fleet.WaitedTooLong(limit, noSlotRetryAfter)
	s.logRefusal(ctx, principal, err)
	return err
}

// takeOrEnqueue adds a call to the queue of its principal. It returns nil for the call if it took a slot that had become free.
// It fails with LIMIT_REACHED if the queue is full.
func (s *Slots) takeOrEnqueue(principal string) (*waitingCall, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, limits := s.queues[principal], s.limits.Load()
	for {
		n := s.state.Load()
		switch {
		case n < limits.slots:
			if s.state.CompareAndSwap(n, n+1) {
				return nil, nil //nolint:nilnil // the call has a slot
			}
			continue
		case q != nil && limits.maxWaiting > 0 && q.calls.Len() >= limits.maxWaiting:
			return nil, fleet.TooManyWaiting(limits.maxWaiting, noSlotRetryAfter)
		}
		if s.state.CompareAndSwap(n, n+oneWaiting) {
			break
		}
	}
	if q == nil {
		q = &callQueue{principal: principal}
		s.queues[principal] = q
		q.element = s.rotation.PushBack(q)
	}
	c := &waitingCall{queue: q, ready: make(chan struct{})}
	c.element = q.calls.PushBack(c)
	return c, nil
}

// withdraw removes the call from its queue, and reports whether the call was still waiting.
func (s *Slots) withdraw(c *waitingCall) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.element == nil {
		return false
	}
	s.remove(c)
	s.state.Add(^uint64(oneWaiting - 1))
	return true
}

// grantFree gives the free slots to waiting calls. No other call takes a slot as long as calls wait. The caller holds s.mu.
func (s *Slots) grantFree() {
	for s.rotation.Len() > 0 && s.state.Load()%oneWaiting < s.limits.Load().slots {
		q := s.rotation.Front().Value.(*callQueue) //nolint:forcetypeassert // see rotation
		c := q.calls.Front().Value.(*waitingCall)  //nolint:forcetypeassert // see calls
		s.rotation.MoveToBack(q.element)
		s.remove(c)
		s.state.Add(^uint64(oneWaiting - 2)) // one call less waits, and one call more has a slot
		close(c.ready)
	}
}

// remove removes the call from its queue. The caller holds s.mu.
func (s *Slots) remove(c *waitingCall) {
	q := c.queue
	q.calls.Remove(c.element)
	c.element = nil
	if q.calls.Len() == 0 {
		s.rotation.Remove(q.element)
		delete(s.queues, q.principal)
	}
}

// logRefusal logs that a call got no slot. It logs at most one refusal per refusalWindow.
func (s *Slots) logRefusal(ctx context.Context, principal string, err error) {
	now := time.Now().Unix()
	if last := s.loggedAt.Load(); now-last >= int64(refusalWindow/time.Second) && s.loggedAt.CompareAndSwap(last, now) {
		s.log.WarnContext(ctx, "too many calls at the same time, refusing some", slog.String("principal", principal), slog.Any("error", err))
	}
}

// slot is the slot of one call. A slot without Slots is always free. It implements fleet.Slot.
type slot struct {
	slots *Slots
	taken atomic.Bool
}

// take waits for the slot.
func (s *slot) take(ctx context.Context, principal string) error {
	if err := s.slots.Take(ctx, principal); err != nil {
		return err
	}
	s.taken.Store(true)
	return nil
}

// Release implements fleet.Slot.
func (s *slot) Release() {
	if s.taken.CompareAndSwap(true, false) {
		s.slots.Release()
	}
}
