package placetest

import (
	"context"
	"time"

	"fleet/internal/fleet"
)

// canceled calls every method with a cancelled context. Each call must return the context's error and have no lasting
// effect.
func canceled(x *fixture) {
	a := x.ready()
	r, f := x.working(a, x.h.Prompts.Works)
	ended := x.ready()
	past := x.dispatch(ended, x.h.Prompts.Says)
	x.completes(ended, past, x.h.Prompts.Says)
	fresh := x.agent()
	next := x.run(x.h.Prompts.Says)
	done, cancel := context.WithCancel(x.ctx)
	cancel()
	calls := map[string]func() error{
		"Projects":  func() error { _, err := x.b.Projects(done); return err },
		"Roles":     func() error { _, err := x.b.Roles(done, x.h.Project); return err },
		"Provision": func() error { _, err := x.b.Provision(done, fresh); return err },
		"Start":     func() error { return x.b.Start(done, a) },
		"Stop":      func() error { return x.b.Stop(done, a) },
		"Delete":    func() error { _, err := x.b.Delete(done, a); return err },
		"Inspect":   func() error { _, err := x.b.Inspect(done, a); return err },
		"List":      func() error { _, err := x.b.List(done); return err },
		"Dispatch":  func() error { return x.b.Connect(ended).Dispatch(done, next) },
		"Follow": func() error {
			_, err := x.b.Connect(a).Follow(done, r, "", func(fleet.Output) error { return nil })
			return err
		},
		"Follow of what has ended": func() error {
			_, err := x.b.Connect(ended).Follow(done, past, "", func(fleet.Output) error { return nil })
			return err
		},
		"Interrupt": func() error { return x.b.Connect(a).Interrupt(done, r, true) },
	}
	if !x.h.NoLog {
		calls["Log"] = func() error { _, _, err := x.b.Log(done, a, 1); return err }
	}
	if x.h.Prompts.Listens.Text != "" {
		calls["Send"] = func() error { return x.b.Connect(a).Send(done, r, "message-1", "Hi.") }
	}
	for name, call := range calls {
		x.ErrorIs(call(), context.Canceled, name)
	}

	// Repeated calls with a context that is not cancelled succeed.
	w, err := x.b.Provision(x.ctx, fresh)
	x.NoError(err)
	x.NotEmpty(w.ID)
	x.Len(x.listed(fresh), 1)
	next.Again = true
	x.NoError(x.b.Connect(ended).Dispatch(x.ctx, next))
	x.completes(ended, next, x.h.Prompts.Says)
	_, err = x.b.Delete(x.ctx, a)
	x.NoError(err)
	_, o, err := f.end()
	x.NoError(err)
	x.cutShort(o)
}

// cutOff calls each method with a deadline, and repeats the call with a later deadline until it succeeds. Each repeated
// call must continue the work of the interrupted call.
func cutOff(x *fixture) {
	a := x.agent()
	callUntilDone := func(name string, call func(ctx context.Context) error) {
		x.Helper()
		for patience := 50 * time.Microsecond; patience < x.h.Patience; patience *= 3 {
			ctx, cancel := context.WithTimeout(x.ctx, patience)
			err := call(ctx)
			cancel()
			if err == nil {
				return
			}
			x.ErrorIs(err, context.DeadlineExceeded, name)
		}
		x.NoError(call(x.ctx), name)
	}

	var w fleet.Workspace
	callUntilDone("Provision", func(ctx context.Context) (err error) {
		w, err = x.b.Provision(ctx, a)
		return err
	})
	his := x.listed(a)
	x.Len(his, 1)
	x.Equal(w.ID, his[0].ID)
	a.WorkspaceID = w.ID
	x.await(a, fleet.StateRunning)

	r := x.run(x.h.Prompts.Says)
	callUntilDone("Dispatch", func(ctx context.Context) error {
		err := x.b.Connect(a).Dispatch(ctx, r)
		r.Again = true
		return err
	})
	callUntilDone("Follow", func(ctx context.Context) error {
		_, err := x.b.Connect(a).Follow(ctx, r, "", func(fleet.Output) error { return nil })
		return err
	})
	x.completes(a, r, x.h.Prompts.Says)

	r, f := x.working(a, x.h.Prompts.Works)
	callUntilDone("Interrupt", func(ctx context.Context) error { return x.b.Connect(a).Interrupt(ctx, r, false) })
	_, o, err := f.end()
	x.NoError(err)
	x.Equal(fleet.TaskStopped, o.Status)

	callUntilDone("Stop", func(ctx context.Context) error { return x.b.Stop(ctx, a) })
	x.await(a, fleet.StateStopped)
	callUntilDone("Start", func(ctx context.Context) error { return x.b.Start(ctx, a) })
	x.await(a, fleet.StateRunning)
	callUntilDone("Delete", func(ctx context.Context) error { _, err := x.b.Delete(ctx, a); return err })
	x.Empty(x.listed(a))
	x.await(a, fleet.StateDeleted)
}
