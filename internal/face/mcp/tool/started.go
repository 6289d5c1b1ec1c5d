package tool

import (
	"context"

	"google.golang.org/protobuf/proto"
)

// StartedTask has the id of the task that a call has started.
type StartedTask struct {
	ID    string        // empty if there is none
	Known chan struct{} // closed when ID is set, which can be long before the call ends
}

type startedKey struct{}

// WithStartedTask returns a context for one call, which sets the id of the task that it has started.
func WithStartedTask(ctx context.Context) (context.Context, *StartedTask) {
	s := &StartedTask{Known: make(chan struct{})}
	return context.WithValue(ctx, startedKey{}, s), s
}

// noteTask sets the id of the task that a message of the answer names first.
func (s Spec) noteTask(ctx context.Context, m proto.Message) {
	started, _ := ctx.Value(startedKey{}).(*StartedTask)
	if started == nil || s.Task == "" || started.ID != "" {
		return
	}
	if in, f := parentAt(m.ProtoReflect(), s.Task); f != nil && in.Get(f).String() != "" {
		started.ID = in.Get(f).String()
		close(started.Known)
	}
}
