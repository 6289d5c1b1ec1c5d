package fake

import (
	"context"
	"slices"
	"time"

	"fleet/internal/fleet"
)

// Method is a method of fleet.Place, fleet.Versioner or fleet.Runner. Together, these interfaces are the port.
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
	Compare    Method = "Compare"
	Patch      Method = "Patch"
	Output     Method = "Output"
	Check      Method = "Check"
	Bundle     Method = "Bundle"
	CheckStart Method = "CheckStart"
)

// Call is one call of the port.
type Call struct {
	Method        Method
	Agent         fleet.Agent           // zero in calls of Projects, Roles and List
	TaskID        string                // set in calls about runs: Dispatch, Follow, Interrupt, Send and so on
	Kill          bool                  // set in calls of Interrupt
	FleetEndpoint *fleet.ServerEndpoint // set in calls of Dispatch
	Run           *fleet.Run            // set in calls of Dispatch
}

// hookPoint is a point in a method: before the method does anything, or after it has done everything except return.
type hookPoint struct {
	method Method
	after  bool
}

// fault is an error that the next calls return.
type fault struct {
	times int
	err   error
}

// Fail makes the next calls of the method return err without doing anything. times is the number of these calls. A nil
// err means BACKEND_UNAVAILABLE. Fail replaces an earlier Fail of the method.
func (p *Place) Fail(m Method, times int, err error) { p.fail(hookPoint{method: m}, times, err) }

// FailAfter makes the next calls of the method take effect but return err, as if the answer were lost. times is the
// number of these calls. A nil err means BACKEND_UNAVAILABLE. FailAfter replaces an earlier FailAfter of the method.
func (p *Place) FailAfter(m Method, times int, err error) {
	p.fail(hookPoint{method: m, after: true}, times, err)
}

func (p *Place) fail(at hookPoint, times int, err error) {
	if err == nil {
		err = fleet.Errorf(fleet.ReasonBackendUnavailable, "the agents' host does not answer; try again")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults[at] = &fault{times: times, err: err}
}

// Delay makes every call of the method wait for d first; 0 removes the delay.
func (p *Place) Delay(m Method, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delays[m] = d
}

// Hold makes calls of the method wait, before they do anything, until the gate is opened or their context is done.
func (p *Place) Hold(m Method) *Gate { return p.hold(hookPoint{method: m}) }

// HoldAfter makes calls of the method wait, after they have taken effect and before they return, until the gate is
// opened or their context is done. A server that is killed meanwhile does not learn that the call succeeded.
func (p *Place) HoldAfter(m Method) *Gate { return p.hold(hookPoint{method: m, after: true}) }

func (p *Place) hold(at hookPoint) *Gate {
	g := newGate()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holdGates[at] = g
	return g
}

// Calls returns how often the method was called, including failed calls.
func (p *Place) Calls(m Method) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[m]
}

// Called returns a channel that is closed when the method has been called n times, including failed calls.
func (p *Place) Called(m Method, n int) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	reached := make(chan struct{})
	if p.calls[m] >= n {
		close(reached)
		return reached
	}
	p.callWaiters = append(p.callWaiters, callWaiter{m, n, reached})
	return reached
}

// callWaiter waits for a number of calls, on behalf of a test.
type callWaiter struct {
	method  Method
	calls   int
	reached chan struct{}
}

// count counts a call, and closes the channels of Called whose number is reached. The caller holds mu.
func (p *Place) count(m Method) {
	p.calls[m]++
	p.callWaiters = slices.DeleteFunc(p.callWaiters, func(w callWaiter) bool {
		if w.method != m || p.calls[m] < w.calls {
			return false
		}
		close(w.reached)
		return true
	})
}

// Overlaps describes each call that changed an agent while another call changed the same agent, which the port forbids.
// Tests of the reconciler expect no overlaps.
func (p *Place) Overlaps() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.overlaps)
}

// callPort executes act as one call of the port, with the hooks, delays and faults that the test has set.
func (p *Place) callPort(ctx context.Context, c Call, act func() error) error {
	defer p.recordCall(c)()
	if err := p.applyHook(ctx, c, hookPoint{method: c.Method}, p.config.Before); err != nil {
		return err
	}
	if err := p.refusal(c); err != nil {
		return err
	}
	if err := act(); err != nil {
		return err
	}
	return p.applyHook(ctx, c, hookPoint{method: c.Method, after: true}, p.config.After)
}

// callLocked is like callPort, but holds the world's mutex during act.
func (p *Place) callLocked(ctx context.Context, c Call, act func() error) error {
	return p.callPort(ctx, c, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		return act()
	})
}

// refusal returns an error if the host refuses the call: the call comes from another user, or the host does not show the
// workspace.
func (p *Place) refusal(c Call) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.otherCaller {
		return fleet.Errorf(fleet.ReasonBackendUnavailable, "the token belongs to another user").WithCause(fleet.ErrOtherIdentity)
	}
	switch c.Method {
	case Projects, Roles, List, Inspect, Delete:
		return nil
	}
	if w := p.workspaceOf(c.Agent); w != nil && w.hidden {
		return fleet.Errorf(fleet.ReasonBackendUnavailable, "%s", notShownReason)
	}
	return nil
}

// notShownReason is the reason of a workspace that the host does not show.
const notShownReason = "its host does not show its workspace"

// recordCall records the start of a call and returns a function that records its end.
func (p *Place) recordCall(c Call) (leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count(c.Method)
	switch c.Method {
	case Provision, Start, Stop, Delete, Dispatch:
	default:
		return func() {}
	}
	uid := c.Agent.UID
	if m, ok := p.changing[uid]; ok {
		p.overlaps = append(p.overlaps, string(c.Method)+" of agent "+c.Agent.Name+" during "+string(m))
		return func() {}
	}
	p.changing[uid] = c.Method
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.changing, uid)
	}
}

// applyHook applies the delay, the gate, the hook and the fault that the test has set for the point at of the call.
func (p *Place) applyHook(ctx context.Context, c Call, at hookPoint, hook func(context.Context, Call) error) error {
	p.mu.Lock()
	delay, gate := p.delays[c.Method], p.holdGates[at]
	p.mu.Unlock()
	if delay > 0 && !at.after {
		select {
		case <-time.After(delay):
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
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.faults[at]; f != nil && f.times > 0 {
		f.times--
		return f.err
	}
	return nil
}
