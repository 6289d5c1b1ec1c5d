package placetest

import (
	"bytes"
	"errors"

	"fleet/internal/fleet"
)

func bundle(x *fixture) {
	a := x.readyIn(x.h.Repository)
	made := func() []byte {
		x.Helper()
		var b bytes.Buffer
		x.NoError(x.b.Connect(a).Bundle(x.ctx, &b))
		return b.Bytes()
	}
	if !x.b.Traits().Bundles {
		x.optional(x.b.Connect(a).Bundle(x.ctx, &bytes.Buffer{}))
		return
	}
	x.Empty(made(), "the bundle of an agent that has changed nothing")
	r := x.dispatch(a, x.h.Prompts.Changes)
	_, o := x.whole(a, r)
	x.Equal(fleet.TaskCompleted, o.Status, "outcome: %+v", o)
	x.NotEmpty(made(), "the bundle must contain uncommitted changes")
	_, err := x.b.Connect(a).Changes(x.ctx, r)
	x.NoError(err)
	before := made()
	x.NotEmpty(before)
	full := errors.New("full")
	x.ErrorIs(x.b.Connect(a).Bundle(x.ctx, failing{full}), full)

	x.NoError(x.b.Stop(x.ctx, a))
	x.await(a, fleet.StateStopped)
	if err := x.b.Connect(a).Bundle(x.ctx, &bytes.Buffer{}); err != nil {
		x.reason(err, fleet.ReasonAgentOffline) // which says that the workspace has to run for it
	}
	x.NoError(x.b.Start(x.ctx, a))
	x.await(a, fleet.StateRunning)
	x.NotEmpty(made(), "the work must survive a stop")

	_, err = x.b.Delete(x.ctx, a)
	x.NoError(err)
	if x.b.Traits().KeepsWork {
		x.NotEmpty(made(), "the bundle of a deleted agent, which the trait KeepsWork promises")
	}
}

// failing is a writer that returns an error.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
