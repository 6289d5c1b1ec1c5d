package telemetry

import (
	"context"
	"io"

	"go.opentelemetry.io/otel/trace"

	"fleet/internal/fleet"
)

// runner measures a runner of the place.
type runner struct {
	fleet.Runner
	place *place
}

func (r runner) Dispatch(ctx context.Context, run fleet.Run) (err error) {
	ctx, end := r.place.begin(ctx, "dispatch")
	defer end(&err)
	return r.Runner.Dispatch(ctx, run)
}

// Follow implements fleet.Runner. It takes as long as the run, so its duration is not measured. Requests that the place
// sends during it have no spans.
func (r runner) Follow(ctx context.Context, run fleet.Run, cursor string, sink func(fleet.Output) error) (fleet.Outcome, error) {
	ctx, span := r.place.startSpan(ctx, "follow")
	if span != nil {
		ctx = trace.ContextWithRemoteSpanContext(ctx, span.SpanContext())
	}
	o, err := r.Runner.Follow(ctx, run, cursor, sink)
	r.place.countError("follow", err)
	endSpan(span, err)
	return o, err
}

func (r runner) Interrupt(ctx context.Context, run fleet.Run, kill bool) (err error) {
	ctx, end := r.place.begin(ctx, "interrupt")
	defer end(&err)
	return r.Runner.Interrupt(ctx, run, kill)
}

// SetAllowance implements fleet.AllowanceSetter.
func (r runner) SetAllowance(ctx context.Context, run fleet.Run) (err error) {
	ctx, end := r.place.begin(ctx, "allow")
	defer end(&err)
	return fleet.SetAllowance(ctx, r.Runner, run)
}

func (r runner) Send(ctx context.Context, run fleet.Run, id, message string) (err error) {
	ctx, end := r.place.begin(ctx, "send")
	defer end(&err)
	return r.Runner.Send(ctx, run, id, message)
}

func (r runner) Answer(ctx context.Context, run fleet.Run, q fleet.Question) (err error) {
	ctx, end := r.place.begin(ctx, "answer")
	defer end(&err)
	return r.Runner.Answer(ctx, run, q)
}

func (r runner) Changes(ctx context.Context, run fleet.Run) (_ *fleet.Changes, err error) {
	ctx, end := r.place.begin(ctx, "changes")
	defer end(&err)
	return r.Runner.Changes(ctx, run)
}

func (r runner) Compare(ctx context.Context, base, commit string) (_ *fleet.Changes, err error) {
	ctx, end := r.place.begin(ctx, "compare")
	defer end(&err)
	return r.Runner.Compare(ctx, base, commit)
}

func (r runner) Patch(ctx context.Context, c fleet.Changes, path string, offset int64, limit int) (_ []byte, _ bool, err error) {
	ctx, end := r.place.begin(ctx, "patch")
	defer end(&err)
	return r.Runner.Patch(ctx, c, path, offset, limit)
}

func (r runner) Output(ctx context.Context, run fleet.Run, offset int64, limit int) (_ fleet.OutputPage, err error) {
	ctx, end := r.place.begin(ctx, "output")
	defer end(&err)
	return r.Runner.Output(ctx, run, offset, limit)
}

func (r runner) Check(ctx context.Context, run fleet.Run, c fleet.Check) (_ fleet.CheckResult, err error) {
	ctx, end := r.place.begin(ctx, "check")
	defer end(&err)
	return r.Runner.Check(ctx, run, c)
}

func (r runner) Bundle(ctx context.Context, w io.Writer) (err error) {
	ctx, end := r.place.begin(ctx, "bundle")
	defer end(&err)
	return r.Runner.Bundle(ctx, w)
}
