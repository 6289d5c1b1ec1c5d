package rpc

import (
	"context"
	"errors"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"fleet/internal/fleet"
)

// Domain is the domain of every google.rpc.ErrorInfo that Fleet sends.
const Domain = "fleet"

var statusCodes = map[fleet.Code]codes.Code{
	fleet.Internal:           codes.Internal,
	fleet.InvalidArgument:    codes.InvalidArgument,
	fleet.NotFound:           codes.NotFound,
	fleet.AlreadyExists:      codes.AlreadyExists,
	fleet.FailedPrecondition: codes.FailedPrecondition,
	fleet.Aborted:            codes.Aborted,
	fleet.Unavailable:        codes.Unavailable,
	fleet.Unauthenticated:    codes.Unauthenticated,
	fleet.PermissionDenied:   codes.PermissionDenied,
	fleet.ResourceExhausted:  codes.ResourceExhausted,
	fleet.Unimplemented:      codes.Unimplemented,
	fleet.DeadlineExceeded:   codes.DeadlineExceeded,
}

// Error is err as a caller gets it: a status with its details.
func Error(err error) error { return toStatus(err).Err() }

// toStatus is what a caller is told of err. Of an error that is not the core's it is told nothing of the inside.
func toStatus(err error) *status.Status {
	e, ok := errors.AsType[*fleet.Error](err)
	if !ok {
		switch {
		case errors.Is(err, context.Canceled):
			return detailed(codes.Canceled, "the call was cancelled", "CANCELLED", nil)
		case errors.Is(err, context.DeadlineExceeded):
			return detailed(codes.DeadlineExceeded, "the call's deadline has passed", "DEADLINE_EXCEEDED", nil)
		}
		if s, ok := status.FromError(err); ok {
			return s // the transport's own, such as a broken stream
		}
		return detailed(codes.Internal, fleet.Words(err), string(fleet.ReasonInternal), nil)
	}
	var more []protoadapt.MessageV1
	if e.Field != "" {
		more = append(more, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: e.Field, Description: e.Message, Reason: string(e.Reason)},
		}})
	}
	if e.RetryAfter > 0 {
		more = append(more, &errdetails.RetryInfo{RetryDelay: durationpb.New(e.RetryAfter)})
	}
	return detailed(statusCodes[e.Code], e.Message, string(e.Reason), e.Metadata, more...)
}

func detailed(c codes.Code, message, reason string, metadata map[string]string, more ...protoadapt.MessageV1) *status.Status {
	s := status.New(c, textOf(message))
	details := append([]protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: reason, Domain: Domain, Metadata: metadata}}, more...)
	if d, err := s.WithDetails(details...); err == nil {
		return d
	}
	return s // details that cannot be encoded, such as text that is not UTF-8
}
