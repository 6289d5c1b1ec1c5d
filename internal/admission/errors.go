package admission

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	fleetv1 "fleet/gen/fleet/v1"
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

// Error converts err to the error that a caller gets: a gRPC status with details.
func Error(err error) error { return toStatus(err).Err() }

// toStatus returns the status for err. A gRPC status stays as it is. If the cause is unknown to callers, because err is not an error of
// the core, of a context or of gRPC, the status does not reveal it.
func toStatus(err error) *status.Status {
	e, ok := errors.AsType[*fleet.Error](err)
	if !ok {
		switch {
		case errors.Is(err, context.Canceled):
			return newStatus(codes.Canceled, "the call was cancelled", "CANCELLED", nil)
		case errors.Is(err, context.DeadlineExceeded):
			return newStatus(codes.DeadlineExceeded, "the call's deadline has passed", "DEADLINE_EXCEEDED", nil)
		}
		if s, ok := status.FromError(err); ok {
			return s // an error of the transport, for example a broken stream
		}
		return newStatus(codes.Internal, fleet.PublicMessage(err), string(fleet.ReasonInternal), nil)
	}
	message := e.Message
	var details []protoadapt.MessageV1
	if e.NextStep != "" {
		message += "; " + strings.NewReplacer("{", "", "}", "").Replace(e.NextStep)
		details = append(details, protoadapt.MessageV1Of(&fleetv1.NextStep{Text: toValidUTF8(e.NextStep)}))
	}
	if e.Field != "" {
		details = append(details, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: toValidUTF8(e.Field), Description: toValidUTF8(message), Reason: string(e.Reason)},
		}})
	}
	if e.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(e.RetryAfter)})
	}
	return newStatus(statusCodes[e.Code], message, string(e.Reason), e.Metadata, details...)
}

func newStatus(c codes.Code, message, reason string, metadata map[string]string, more ...protoadapt.MessageV1) *status.Status {
	s := status.New(c, toValidUTF8(message))
	texts := make(map[string]string, len(metadata))
	for k, v := range metadata {
		texts[k] = toValidUTF8(v)
	}
	details := append([]protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: reason, Domain: Domain, Metadata: texts}}, more...)
	if d, err := s.WithDetails(details...); err == nil {
		return d
	}
	return s // details with valid texts can always be encoded
}

// toValidUTF8 replaces bytes that are not UTF-8, because a message with them cannot be encoded.
func toValidUTF8(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
