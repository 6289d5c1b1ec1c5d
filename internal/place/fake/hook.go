package fake

import (
	"context"
	"slices"
	"sync"
	"time"

	"fleet/internal/fleet"
)

// Method is a method of fleet.Place or fleet.Runner, which together are the port.
type Method string

// Methods for which hooks can be set.
const (
	Projects   Method = "Projects"
	Roles      Method = "Roles"
	Provision  Method = "Provision"
	Start      Method = "Start"
	Stop       Method = "Stop"
	Delete     Method = "Delete"
	Inspect    Method = "Inspect"
	List       Method = "List"
	Dispatch   Method = "Dispatch"
	Follow     Method = "Follow"
	Interrupt  Method = "Interrupt"
	Send       Method = "Send"
	Answer     Method = "Answer"
	Log        Method = "Log"
	Changes    Method = "Changes"
	Patch      Method = "Patch"
	Output     Method = "Output"
	Check      Method = "Check"
	Bundle     Method = "Bundle"
	CheckStart Method = "CheckStart"
)

// Call is one call of the port.
type Call struct {
	Method Method
	Agent  fleet.Agent   // zero in calls of Projects, Roles and List
	TaskID string        // set in calls of runs: Dispatch, Follow, Interrupt, Send and so on
	Kill   bool          // set in calls of Interrupt
	Report *fleet.Report // set in calls of Dispatch
}

// moment is a point in a method: before the method does anything, or after it has done everything except return.
type moment struct {
	method Method
	after  bool
}

// fault is an error that the next calls return.
type fault struct {
	times int
	err   error
}

// Gate is a point at which calls or runs wait until the test opens the Gate.
type Gate struct {
	open, arrived         chan struct{}
	openOnce, arrivedOnce sync.Once
}

func newGate() *Gate { return &Gate{open: make(chan struct{}), arrived: make(chan struct{})} }

// Arrived returns a channel that is closed when the first call or run waits at the gate.
func (g *Gate) Arrived() <-chan struct{} { return g.arrived }

// Open opens the gate for good. It can be called several times.
func (g *Gate) Open() { g.openOnce.Do(func() { close(g.open) }) }

func (g *Gate) arrive() { g.arrivedOnce.Do(func() { close(g.arrived) }) }

func (g *Gate) isOpen() bool {
	select {
	case <-g.open:
		return true
	default:
		return false
	}
}

// Fail makes the next calls of the method return err without doing anything. times is the number of these calls. A nil
// err means BACKEND_UNAVAILABLE. Fail replaces an earlier Fail of the method.
func (b *Place) Fail(m Method, times int, err error) { b.fail(moment{m, false}, times, err) }

// FailAfter makes the next calls of the method take effect but return err, as if the answer were lost. times is the
// number of these calls. A nil err means BACKEND_UNAVAILABLE. FailAfter replaces an earlier FailAfter of the method.
func (b *Place) FailAfter(m Method, times int, err error) { b.fail(moment{m, true}, times, err) }

func (b *Place) fail(at moment, times int, err error) {
	if err == nil {
		err = fleet.Errorf(fleet.ReasonBackendUnavailable, "the agents' host does not answer; try again")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults[at] = &fault{times: times, err: err}
}

// Delay makes every call of the method wait for d first; 0 removes the delay.
func (b *Place) Delay(m Method, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.delays[m] = d
}

// Hold makes calls of the method wait, before they do anything, until the gate is opened or their context is done.
func (b *Place) Hold(m Method) *Gate { return b.hold(moment{m, false}) }

// HoldAfter makes calls of the method wait, after they have taken effect and before they return, until the gate is
// opened or their context is done. A server that is killed meanwhile does not learn that the call succeeded.
func (b *Place) HoldAfter(m Method) *Gate { return b.hold(moment{m, true}) }

func (b *Place) hold(at moment) *Gate {
	g := newGate()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.holds[at] = g
	return g
}

// Release opens the gate with the name, at which the instruction "wait NAME" waits. Later runs do not wait there.
func (b *Place) Release(name string) { b.gate(name).Open() }

// Reached returns a channel that is closed when a run waits at the gate with the name.
func (b *Place) Reached(name string) <-chan struct{} { return b.gate(name).arrived }

func (b *Place) arrive(name string) { b.gate(name).arrive() }

func (b *Place) gate(name string) *Gate {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.gates[name]
	if g == nil {
		g = newGate()
		b.gates[name] = g
	}
	return g
}

// Calls returns how often the method was called, including failed calls.
func (b *Place) Calls(m Method) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls[m]
}

// Called returns a channel that is closed when the method has been called n times, including failed calls.
func (b *Place) Called(m Method, n int) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	reached := make(chan struct{})
	if b.calls[m] >= n {
		close(reached)
		return reached
	}
	b.awaited = append(b.awaited, awaited{m, n, reached})
	return reached
}

// awaited is a number of calls that a test waits for.
type awaited struct {
	method  Method
	calls   int
	reached chan struct{}
}

// count counts a call, and closes the channels of Called whose number is reached. The caller holds mu.
func (b *Place) count(m Method) {
	b.calls[m]++
	b.awaited = slices.DeleteFunc(b.awaited, func(a awaited) bool {
		if a.method != m || b.calls[m] < a.calls {
			return false
		}
		close(a.reached)
		return true
	})
}

// Overlaps describes each call that changed an agent while another call changed the same agent, which the port forbids.
// Tests of the reconciler expect no overlaps.
func (b *Place) Overlaps() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.overlaps...)
}

// call runs act as one call of the port, with the hooks, delays and faults that the test has set.
func (b *Place) call(ctx context.Context, c Call, act func() error) error {
	defer b.enter(c)()
	if err := b.moment(ctx, c, false, b.config.Before); err != nil {
		return err
	}
	if err := b.refused(c); err != nil {
		return err
	}
	if err := act(); err != nil {
		return err
	}
	return b.moment(ctx, c, true, b.config.After)
}

// refused returns why the host does not carry out the call: it takes the place for another caller, or it does not show the
// workspace.
func (b *Place) refused(c Call) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.otherCaller {
		return fleet.Errorf(fleet.ReasonBackendUnavailable, "the token belongs to another user").WithCause(fleet.ErrOtherIdentity)
	}
	switch c.Method {
	case Projects, Roles, List, Inspect, Delete:
		return nil
	}
	if w := b.of(c.Agent); w != nil && w.hidden {
		return fleet.Errorf(fleet.ReasonBackendUnavailable, "%s", notShown)
	}
	return nil
}

// notShown is the reason of a workspace that the host does not show.
const notShown = "its host does not show its workspace"

// enter records the start of a call and returns a function that records its end.
func (b *Place) enter(c Call) (leave func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count(c.Method)
	switch c.Method {
	case Provision, Start, Stop, Delete, Dispatch:
	default:
		return func() {}
	}
	uid := c.Agent.UID
	if m, ok := b.changing[uid]; ok {
		b.overlaps = append(b.overlaps, string(c.Method)+" of agent "+c.Agent.Name+" during "+string(m))
		return func() {}
	}
	b.changing[uid] = c.Method
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.changing, uid)
	}
}

func (b *Place) moment(ctx context.Context, c Call, after bool, hook func(context.Context, Call) error) error {
	at := moment{c.Method, after}
	b.mu.Lock()
	delay, gate := b.delays[c.Method], b.holds[at]
	b.mu.Unlock()
	if delay > 0 && !after {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if gate != nil {
		gate.arrive()
		select {
		case <-gate.open:
		case <-ctx.Done():
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if hook != nil {
		if err := hook(ctx, c); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if f := b.faults[at]; f != nil && f.times > 0 {
		f.times--
		return f.err
	}
	return nil
}
