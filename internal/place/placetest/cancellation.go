package placetest

import (
	"context"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/waittest"
)

// canceledCalls calls the methods of the place, and the runner's methods Dispatch, Follow, Interrupt and Send, with a cancelled context.
// Each call must return the context's error, and must not prevent a later call from succeeding.
func canceledCalls(x *fixture) {
	a := x.readyAgent()
	r, f := x.startWorking(a, x.harness.Prompts.Works)
	idle := x.readyAgent()
	endedRun := x.completeRun(idle)
	unprovisioned := x.newAgent()
	next := x.newRun(x.harness.Prompts.Says)
	canceledCtx, cancel := context.WithCancel(x.ctx)
	cancel()
	calls := map[string]func() error{
		"Projects":  func() error { _, err := x.place.Projects(canceledCtx); return err },
		"Roles":     func() error { _, err := x.place.Roles(canceledCtx, x.harness.Project); return err },
		"Provision": func() error { _, err := x.place.Provision(canceledCtx, unprovisioned); return err },
		"Start":     func() error { return x.place.Start(canceledCtx, a) },
		"Stop":      func() error { return x.place.Stop(canceledCtx, a) },
		"Delete":    func() error { _, err := x.place.Delete(canceledCtx, a); return err },
		"Inspect":   func() error { _, err := x.place.Inspect(canceledCtx, a); return err },
		"List":      func() error { _, err := x.place.List(canceledCtx); return err },
		"Dispatch":  func() error { return x.place.Connect(idle).Dispatch(canceledCtx, next) },
		"Follow": func() error {
			_, err := x.place.Connect(a).Follow(canceledCtx, r, "", func(fleet.Output) error { return nil })
			return err
		},
		"Follow of an ended run": func() error {
			_, err := x.place.Connect(idle).Follow(canceledCtx, endedRun, "", func(fleet.Output) error { return nil })
			return err
		},
		"Interrupt": func() error { return x.place.Connect(a).Interrupt(canceledCtx, r, true) },
		"Log":       func() error { _, _, err := x.place.Log(canceledCtx, a, 1); return err },
	}
	if x.harness.Prompts.Listens.Text != "" {
		calls["Send"] = func() error { return x.place.Connect(a).Send(canceledCtx, r, "message-1", "Hi.") }
	}
	for name, call := range calls {
		x.ErrorIs(call(), context.Canceled, name)
	}

	// Calls with a context that is not cancelled succeed afterwards.
	w := x.provision(unprovisioned)
	x.NotEmpty(w.ID)
	x.Len(x.list(unprovisioned), 1)
	next.Again = true
	x.NoError(x.place.Connect(idle).Dispatch(x.ctx, next))
	x.requireCompleted(idle, next, x.harness.Prompts.Says)
	x.delete(a)
	_, o := f.waitForOutcome()
	x.requireCutShort(o)
}

// interruptedCalls creates an agent, lets it work, and deletes it. It makes each call with a deadline, and repeats the call with a
// later deadline until it succeeds. A repeated call must continue the work of the interrupted call.
func interruptedCalls(x *fixture) {
	a := x.newAgent()
	callUntilDone := func(name string, call func(ctx context.Context) error) {
		x.Helper()
		for timeout := 50 * time.Microsecond; timeout < waittest.Limit; timeout *= 3 {
			ctx, cancel := context.WithTimeout(x.ctx, timeout)
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
		w, err = x.place.Provision(ctx, a)
		return err
	})
	listed := x.list(a)
	x.Len(listed, 1)
	x.Equal(w.ID, listed[0].ID)
	a.WorkspaceID = w.ID
	x.await(a, fleet.StateRunning)

	r := x.newRun(x.harness.Prompts.Says)
	callUntilDone("Dispatch", func(ctx context.Context) error {
		err := x.place.Connect(a).Dispatch(ctx, r)
		r.Again = true
		return err
	})
	callUntilDone("Follow", func(ctx context.Context) error {
		_, err := x.place.Connect(a).Follow(ctx, r, "", func(fleet.Output) error { return nil })
		return err
	})
	x.requireCompleted(a, r, x.harness.Prompts.Says)

	r, f := x.startWorking(a, x.harness.Prompts.Works)
	callUntilDone("Interrupt", func(ctx context.Context) error { return x.place.Connect(a).Interrupt(ctx, r, false) })
	_, o := f.waitForOutcome()
	x.Equal(fleet.TaskStopped, o.Status)

	callUntilDone("Stop", func(ctx context.Context) error { return x.place.Stop(ctx, a) })
	x.await(a, fleet.StateStopped)
	callUntilDone("Start", func(ctx context.Context) error { return x.place.Start(ctx, a) })
	x.await(a, fleet.StateRunning)
	callUntilDone("Delete", func(ctx context.Context) error { _, err := x.place.Delete(ctx, a); return err })
	x.Empty(x.list(a))
	x.await(a, fleet.StateDeleted)
}
