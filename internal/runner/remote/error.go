package remote

import (
	"context"
	"errors"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	runnerv1 "fleet/gen/fleet/runner/v1"
	"fleet/internal/fleet"
)

// codes are the codes of errors on the wire. The client reads only the reason, see fromFault.
var codes = map[fleet.Code]connect.Code{
	fleet.Internal: connect.CodeInternal, fleet.InvalidArgument: connect.CodeInvalidArgument, fleet.NotFound: connect.CodeNotFound,
	fleet.AlreadyExists: connect.CodeAlreadyExists, fleet.FailedPrecondition: connect.CodeFailedPrecondition,
	fleet.Aborted: connect.CodeAborted, fleet.Unavailable: connect.CodeUnavailable, fleet.Unauthenticated: connect.CodeUnauthenticated,
	fleet.PermissionDenied: connect.CodePermissionDenied, fleet.ResourceExhausted: connect.CodeResourceExhausted,
	fleet.Unimplemented: connect.CodeUnimplemented, fleet.DeadlineExceeded: connect.CodeDeadlineExceeded,
}

// toFault converts an error of the runner for the wire. The client learns nothing about the cause of an unknown error.
func toFault(err error) *connect.Error {
	var e *fleet.Error
	switch {
	case errors.As(err, &e):
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return connect.NewError(connect.CodeCanceled, err)
	default:
		e = fleet.Errorf(fleet.ReasonInternal, "internal error of the runner: see its log")
	}
	out := connect.NewError(codes[e.Code], errors.New(e.Message))
	detail := &runnerv1.Fault{Reason: string(e.Reason), Field: e.Field, Metadata: e.Metadata}
	if e.RetryAfter > 0 {
		detail.RetryAfter = durationpb.New(e.RetryAfter)
	}
	if d, err := connect.NewErrorDetail(detail); err == nil {
		out.AddDetail(d)
	}
	return out
}

// fromFault returns the runner's error in err. It returns nil if err is not from the runner, but for example from a proxy.
func fromFault(err error) *fleet.Error {
	var ce *connect.Error
	if !errors.As(err, &ce) {
		return nil
	}
	for _, d := range ce.Details() {
		v, derr := d.Value()
		if derr != nil {
			continue
		}
		f, ok := v.(*runnerv1.Fault)
		if !ok || f.GetReason() == "" {
			continue
		}
		e := fleet.Errorf(fleet.Reason(f.GetReason()), "%s", ce.Message())
		e.Field, e.Metadata, e.RetryAfter = f.GetField(), f.GetMetadata(), f.GetRetryAfter().AsDuration()
		if f.GetField() != "" {
			e.Code = fleet.InvalidArgument
		}
		return e
	}
	return nil
}
