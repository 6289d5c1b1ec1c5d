package telemetry

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"fleet/internal/fleet"
)

type placeMetrics struct {
	duration *prometheus.HistogramVec
	errors   *prometheus.CounterVec
}

func newPlaceMetrics() placeMetrics {
	return placeMetrics{duration: placeDuration.newHistogramVec(), errors: placeErrors.newCounterVec()}
}

// Place returns a place that does what p does, and measures the operations of p and of its runners.
func (t *Telemetry) Place(p fleet.Place) fleet.Place {
	return &place{Place: p, telemetry: t, name: p.Traits().Name}
}

// place measures a place. It implements every optional interface of places. The methods of an interface that the measured
// place does not implement return the result for "not supported", or UNIMPLEMENTED.
type place struct {
	fleet.Place
	telemetry *Telemetry
	name      string
}

// begin begins to measure an operation. It returns the context for the operation, and a function to call with the
// operation's error when it has ended. The function records the duration, counts the error, and ends the span.
func (p *place) begin(ctx context.Context, operation string) (context.Context, func(*error)) {
	start := time.Now()
	ctx, span := p.startSpan(ctx, operation)
	return ctx, func(err *error) {
		p.telemetry.placeMetrics.duration.WithLabelValues(p.name, operation).Observe(time.Since(start).Seconds())
		p.countError(operation, *err)
		endSpan(span, *err)
	}
}

// startSpan begins the span of the operation. The span is nil if the operation belongs to work that is not traced.
func (p *place) startSpan(ctx context.Context, operation string) (context.Context, trace.Span) {
	return p.telemetry.startChild(ctx, "place."+operation, trace.SpanKindClient, attribute.String("fleet.place", p.name))
}

// countError counts err as an error of the operation. It counts neither nil nor a cancellation.
func (p *place) countError(operation string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		p.telemetry.placeMetrics.errors.WithLabelValues(p.name, operation, errorCode(err)).Inc()
	}
}

// errorCodes maps the codes of errors to values of the metric label "code" and to descriptions of failed spans.
var errorCodes = [...]string{
	fleet.Internal: "INTERNAL", fleet.InvalidArgument: "INVALID_ARGUMENT", fleet.NotFound: "NOT_FOUND", fleet.AlreadyExists: "ALREADY_EXISTS",
	fleet.FailedPrecondition: "FAILED_PRECONDITION", fleet.Aborted: "ABORTED", fleet.Unavailable: "UNAVAILABLE",
	fleet.Unauthenticated: "UNAUTHENTICATED", fleet.PermissionDenied: "PERMISSION_DENIED", fleet.ResourceExhausted: "RESOURCE_EXHAUSTED",
	fleet.Unimplemented: "UNIMPLEMENTED", fleet.DeadlineExceeded: "DEADLINE_EXCEEDED",
}

// errorCode returns the value of the label code for err. It returns only values of errorCodes, because the error may come
// from a workspace, and workspaces are not trusted.
func errorCode(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return errorCodes[fleet.DeadlineExceeded]
	}
	if e, ok := errors.AsType[*fleet.Error](err); ok && e.Code > fleet.Internal && int(e.Code) < len(errorCodes) {
		return errorCodes[e.Code]
	}
	return errorCodes[fleet.Internal]
}

func (p *place) Projects(ctx context.Context) (_ []fleet.Project, err error) {
	ctx, end := p.begin(ctx, "projects")
	defer end(&err)
	return p.Place.Projects(ctx)
}

func (p *place) Roles(ctx context.Context, project string) (_ []fleet.Role, err error) {
	ctx, end := p.begin(ctx, "roles")
	defer end(&err)
	return p.Place.Roles(ctx, project)
}

func (p *place) Provision(ctx context.Context, a fleet.Agent) (_ fleet.Workspace, err error) {
	ctx, end := p.begin(ctx, "provision")
	defer end(&err)
	return p.Place.Provision(ctx, a)
}

func (p *place) Start(ctx context.Context, a fleet.Agent) (err error) {
	ctx, end := p.begin(ctx, "start")
	defer end(&err)
	return p.Place.Start(ctx, a)
}

func (p *place) Stop(ctx context.Context, a fleet.Agent) (err error) {
	ctx, end := p.begin(ctx, "stop")
	defer end(&err)
	return p.Place.Stop(ctx, a)
}

func (p *place) Delete(ctx context.Context, a fleet.Agent) (_ string, err error) {
	ctx, end := p.begin(ctx, "delete")
	defer end(&err)
	return p.Place.Delete(ctx, a)
}

func (p *place) Inspect(ctx context.Context, a fleet.Agent) (_ fleet.Workspace, err error) {
	ctx, end := p.begin(ctx, "inspect")
	defer end(&err)
	return p.Place.Inspect(ctx, a)
}

func (p *place) List(ctx context.Context) (_ []fleet.Workspace, err error) {
	ctx, end := p.begin(ctx, "list")
	defer end(&err)
	return p.Place.List(ctx)
}

func (p *place) Log(ctx context.Context, a fleet.Agent, n int) (_ []string, _ bool, err error) {
	ctx, end := p.begin(ctx, "log")
	defer end(&err)
	return p.Place.Log(ctx, a, n)
}

func (p *place) Connect(a fleet.Agent) fleet.Runner { return runner{p.Place.Connect(a), p} }

// CheckOptions implements fleet.Optioner.
func (p *place) CheckOptions(a fleet.Agent, o fleet.TaskOptions) error {
	return fleet.CheckOptions(p.Place, a, o)
}

// CheckAttach implements fleet.Attacher.
func (p *place) CheckAttach(a fleet.Agent) error { return fleet.CheckAttach(p.Place, a) }

// Attach implements fleet.Attacher. It takes as long as a person uses the program, so it is not measured.
func (p *place) Attach(ctx context.Context, a fleet.Agent, r fleet.Run, input <-chan fleet.TerminalInput, output func([]byte) error) error {
	return fleet.Attach(ctx, p.Place, a, r, input, output)
}

// UnconfinedReason implements fleet.Confiner.
func (p *place) UnconfinedReason(a fleet.Agent) string {
	if c, ok := p.Place.(fleet.Confiner); ok {
		return c.UnconfinedReason(a)
	}
	return ""
}

// MaxCost implements fleet.CostLimiter.
func (p *place) MaxCost(project, role string) fleet.Micros {
	if c, ok := p.Place.(fleet.CostLimiter); ok {
		return c.MaxCost(project, role)
	}
	return 0
}

// Grant implements fleet.Delegator.
func (p *place) Grant(project, role string) *fleet.Grant {
	if d, ok := p.Place.(fleet.Delegator); ok {
		return d.Grant(project, role)
	}
	return nil
}

// Credential implements fleet.Credentialer.
func (p *place) Credential(project string) string {
	if c, ok := p.Place.(fleet.Credentialer); ok {
		return c.Credential(project)
	}
	return ""
}

// CheckStart implements fleet.Versioner.
func (p *place) CheckStart(ctx context.Context, a fleet.Agent) (_ string, err error) {
	v, ok := p.Place.(fleet.Versioner)
	if !ok {
		return a.Role, nil
	}
	ctx, end := p.begin(ctx, "check_start")
	defer end(&err)
	return v.CheckStart(ctx, a)
}

// KeptWork implements fleet.Keeper.
func (p *place) KeptWork(ctx context.Context, uid string) (_ []fleet.KeptWork, err error) {
	k, ok := p.Place.(fleet.Keeper)
	if !ok {
		return nil, nil
	}
	ctx, end := p.begin(ctx, "kept")
	defer end(&err)
	return k.KeptWork(ctx, uid)
}

// Repository implements fleet.Integrator.
func (p *place) Repository(project string) (fleet.Repository, error) {
	if i, ok := p.Place.(fleet.Integrator); ok {
		return i.Repository(project)
	}
	return nil, fleet.Errorf(fleet.ReasonUnimplemented, "%s cannot merge the work of agents", p.name)
}

// Prune implements fleet.Pruner.
func (p *place) Prune(ctx context.Context, q fleet.PruneQuery) (_ []fleet.Leftover, err error) {
	pruner, ok := p.Place.(fleet.Pruner)
	if !ok {
		return nil, nil
	}
	ctx, end := p.begin(ctx, "prune")
	defer end(&err)
	return pruner.Prune(ctx, q)
}

// UnsavedWork implements fleet.Examiner.
func (p *place) UnsavedWork(ctx context.Context, a fleet.Agent) (_ string, err error) {
	e, ok := p.Place.(fleet.Examiner)
	if !ok {
		return "", fleet.Errorf(fleet.ReasonUnimplemented, "%s does not examine workspaces", p.name)
	}
	ctx, end := p.begin(ctx, "unsaved")
	defer end(&err)
	return e.UnsavedWork(ctx, a)
}

// Tidy implements fleet.Tidier.
func (p *place) Tidy(ctx context.Context, now time.Time) (err error) {
	t, ok := p.Place.(fleet.Tidier)
	if !ok {
		return nil
	}
	ctx, end := p.begin(ctx, "tidy")
	defer end(&err)
	return t.Tidy(ctx, now)
}
