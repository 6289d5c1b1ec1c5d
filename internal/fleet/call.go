package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// CallID identifies a call of the API in the log. The zero CallID means that there is no call.
type CallID uint64

// String returns the id in 16 hex digits.
func (id CallID) String() string { return fmt.Sprintf("%016x", uint64(id)) }

// Call is a call of the API.
type Call struct {
	ID   CallID
	Slot Slot // nil if the call needs none
	// CountRequest counts a request about the project. It returns LIMIT_REACHED if there were too many. nil counts nothing.
	CountRequest func(ctx context.Context, project string) error
	// Detached is set if the caller wants an answer as soon as the task that the call starts is stored, see the function Detached.
	Detached bool
	// Resumes is set if a caller that disconnects comes back and repeats the call with the same request id, see WorkContinues.
	Resumes bool

	counted atomic.Bool
}

// Slot is a call's permission to run: a server works on a limited number of calls at the same time.
type Slot interface {
	// Release gives the slot to another call. Further calls of Release do nothing.
	Release()
}

type callKey struct{}

// WithCall returns a context for the call.
func WithCall(ctx context.Context, c *Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// CallIDFrom returns the id of the context's call; zero if the context has no call.
func CallIDFrom(ctx context.Context) CallID {
	if c, ok := ctx.Value(callKey{}).(*Call); ok {
		return c.ID
	}
	return 0
}

// Detached reports whether the context's call must return as soon as the task that it starts is stored, with only the id of
// the task. The caller asks for the end of the task later. An agent cannot do that, so its calls are not detached.
func Detached(ctx context.Context) bool {
	c, ok := ctx.Value(callKey{}).(*Call)
	if !ok || !c.Detached {
		return false
	}
	p, err := PrincipalFrom(ctx)
	return err == nil && p.AgentUID == ""
}

// WorkContinues reports whether the context's call has ended, but its work must continue. It must if the server shuts down, because
// the caller can ask another server for the result, and if the caller comes back (Call.Resumes).
func WorkContinues(ctx context.Context) bool {
	c, ok := ctx.Value(callKey{}).(*Call)
	return errors.Is(context.Cause(ctx), ErrShutdown) || ok && c.Resumes && ctx.Err() != nil
}

// CountProjectRequest counts the context's call as a request about the project, unless it is counted already. It returns LIMIT_REACHED if
// there were too many.
func CountProjectRequest(ctx context.Context, project string) error {
	c, ok := ctx.Value(callKey{}).(*Call)
	if !ok || c.CountRequest == nil || project == "" || c.counted.Swap(true) {
		return nil
	}
	return c.CountRequest(ctx, project)
}

// ReleaseSlot gives up the slot of the context's call, if it has one. Call it before a wait that can be long: for a change
// of an agent or a task, for a message, for another server. Otherwise calls that only wait would block other calls, perhaps
// even those that they wait for. The call does not get another slot afterwards.
func ReleaseSlot(ctx context.Context) {
	if c, ok := ctx.Value(callKey{}).(*Call); ok && c.Slot != nil {
		c.Slot.Release()
	}
}
