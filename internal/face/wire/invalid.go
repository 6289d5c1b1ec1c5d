package wire

import (
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Domain is the domain of every google.rpc.ErrorInfo that Fleet sends.
const Domain = "fleet"

// invalidArgument is the reason of a bad value if the proto sets no reason for the field.
const invalidArgument = "INVALID_ARGUMENT"

// invalidReason is the field option that names the reason of a bad value. It is looked up by name, because the
// generated package imports this package through its MCP tools.
const invalidReason protoreflect.FullName = "fleet.v1.invalid_reason"

// Invalid returns a status INVALID_ARGUMENT with an ErrorInfo of the reason. If a field is at fault, its path is in the
// metadata and in a BadRequest.
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
	reason := invalidArgument
	f.Options().ProtoReflect().Range(func(option protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if option.FullName() != invalidReason || option.Enum() == nil {
			return true
		}
		if value := option.Enum().Values().ByNumber(v.Enum()); value != nil && value.Number() != 0 {
			reason = string(value.Name())
		}
		return false
	})
	return reason
}
