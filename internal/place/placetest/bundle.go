package placetest

import (
	"bytes"
	"errors"

	"fleet/internal/fleet"
)

func bundle(x *fixture) {
	a := x.readyAgentIn(x.harness.Repository)
	readBundle := func() []byte {
		x.Helper()
		var b bytes.Buffer
		x.NoError(x.place.Connect(a).Bundle(x.ctx, &b))
		return b.Bytes()
	}
	if !x.place.Traits().SupportsBundles {
		x.allowUnimplemented(x.place.Connect(a).Bundle(x.ctx, &bytes.Buffer{}))
		return
	}
	x.Empty(readBundle(), "the bundle of an agent that has changed nothing")
	r := x.dispatch(a, x.harness.Prompts.Changes)
	x.requireCompleted(a, r, Prompt{})
	x.NotEmpty(readBundle(), "the bundle must contain uncommitted changes")
	_, err := x.place.Connect(a).Changes(x.ctx, r)
	x.NoError(err)
	x.NotEmpty(readBundle(), "the bundle must contain the commit that Changes has made")
	full := errors.New("full")
	x.ErrorIs(x.place.Connect(a).Bundle(x.ctx, failingWriter{full}), full)

	x.stop(a)
	if err := x.place.Connect(a).Bundle(x.ctx, &bytes.Buffer{}); err != nil {
		x.requireReason(err, fleet.ReasonAgentOffline) // the place may need a running workspace for a bundle
	}
	x.start(a)
	x.NotEmpty(readBundle(), "the work must survive a stop")

	x.delete(a)
	if x.place.Traits().KeepsWork {
		x.NotEmpty(readBundle(), "the bundle of a deleted agent, which the trait KeepsWork promises")
	}
}

// failingWriter is a writer whose Write always returns err.
type failingWriter struct{ err error }

func (f failingWriter) Write([]byte) (int, error) { return 0, f.err }
