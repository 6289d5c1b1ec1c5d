package tool

import (
	"context"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// TaskSpec says which tasks the calls of a tool start. The zero value means that they start none.
type TaskSpec struct {
	Path         string // path of the result's field that has the id of the task; if a part of the path is a list, all tasks in the list were started
	OutlivesCall bool   // the task goes on if the client leaves while the call waits for it
	AtOnce       bool   // the call does not wait for the task
	Landed       bool   // the client waits until the work of the tasks has landed
	Unless       string // bool field of the request: if it is set, the call starts no task
}

// StartedTasks has the ids of the tasks that a call has started.
type StartedTasks struct{ IDs []string }

type startedKey struct{}

// WithStartedTasks returns a context for one call. When the call has started tasks, it sets their ids in the returned
// StartedTasks.
func WithStartedTasks(ctx context.Context) (context.Context, *StartedTasks) {
	s := &StartedTasks{}
	return context.WithValue(ctx, startedKey{}, s), s
}

// recordTasks sets the ids of the tasks that the answer m to the request q names.
func (s Spec) recordTasks(ctx context.Context, q, m proto.Message) {
	started, _ := ctx.Value(startedKey{}).(*StartedTasks)
	if started == nil || s.Task.Path == "" {
		return
	}
	in := q.ProtoReflect()
	if f := in.Descriptor().Fields().ByName(protoreflect.Name(s.Task.Unless)); f != nil && in.Get(f).Bool() {
		return
	}
	started.IDs = textsAt(m.ProtoReflect(), s.Task.Path)
}

// textsAt returns the texts at the path that are set. The path may pass through lists.
func textsAt(m protoreflect.Message, path string) (all []string) {
	name, more, deeper := strings.Cut(path, ".")
	f := m.Descriptor().Fields().ByName(protoreflect.Name(name))
	switch {
	case f == nil || !m.Has(f):
		return nil
	case !deeper:
		return []string{m.Get(f).String()}
	case !f.IsList():
		return textsAt(m.Get(f).Message(), more)
	}
	for i, list := 0, m.Get(f).List(); i < list.Len(); i++ {
		all = append(all, textsAt(list.Get(i).Message(), more)...)
	}
	return all
}
