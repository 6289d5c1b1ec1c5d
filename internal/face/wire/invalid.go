package wire

import (
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protoreflect"

	fleetv1 "fleet/gen/fleet/v1"
)

// Domain is the domain of every google.rpc.ErrorInfo that Fleet sends.
const Domain = "fleet"

// ReasonInvalidArgument is the reason of JSON that cannot be read, and of a bad value if the proto sets no reason for its field.
const ReasonInvalidArgument = "INVALID_ARGUMENT"

// Invalid returns a gRPC status INVALID_ARGUMENT whose ErrorInfo has the reason. field is the path of the field at fault; if it
// is not empty, it is also in the metadata and in a BadRequest.
func Invalid(reason, field, format string, args ...any) error {
	message := fmt.Sprintf(format, args...)
	info := &errdetails.ErrorInfo{Reason: reason, Domain: Domain}
	details := []protoadapt.MessageV1{info}
	if field != "" {
		info.Metadata = map[string]string{"field": field}
		details = append(details, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: field, Description: message, Reason: reason},
		}})
	}
	s := status.New(codes.InvalidArgument, message)
	if d, err := s.WithDetails(details...); err == nil {
		s = d
	}
	return s.Err()
}

// InvalidReason returns the reason that a caller gets for a bad value of the field: the reason in the proto, or
// INVALID_ARGUMENT.
func InvalidReason(f protoreflect.FieldDescriptor) string {
	if reason, _ := proto.GetExtension(f.Options(), fleetv1.E_InvalidReason).(fleetv1.ErrorReason); reason != 0 {
		return reason.String()
	}
	return ReasonInvalidArgument
}
