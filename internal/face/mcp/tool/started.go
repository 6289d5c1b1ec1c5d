package tool

import (
	"context"

	"google.golang.org/protobuf/proto"
)

// Started has the id of the task that a call has started; empty if it has started none.
type Started struct{ ID string }

type startedKey struct{}

// WithStarted returns a context for one call, which sets the id of the task that it has started.
func WithStarted(ctx context.Context) (context.Context, *Started) {
	s := &Started{}
	return context.WithValue(ctx, startedKey{}, s), s
}

// noteTask sets the id of the task that the answer names.
func (s Spec) noteTask(ctx context.Context, m proto.Message) {
	started, _ := ctx.Value(startedKey{}).(*Started)
	if started == nil || s.Task == "" {
		return
	}
	if in, f := parentAt(m.ProtoReflect(), s.Task); f != nil {
		started.ID = in.Get(f).String()
	}
}
