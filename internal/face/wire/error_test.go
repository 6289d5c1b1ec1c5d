package wire_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"fleet/internal/face/wire"
)

func statusOf(t *testing.T, code codes.Code, message string, details ...protoadapt.MessageV1) error {
	t.Helper()
	s, err := status.New(code, message).WithDetails(details...)
	require.NoError(t, err)
	return s.Err()
}

func TestErrors(t *testing.T) {
	t.Parallel()
	info := func(reason string, metadata map[string]string) *errdetails.ErrorInfo {
		return &errdetails.ErrorInfo{Reason: reason, Domain: "fleet", Metadata: metadata}
	}
	internalBody := `{"error":"INTERNAL","message":"an internal error occurred in Fleet; the server's log has the cause: try again, or ask the operator of the server","details":null}`
	for _, c := range []struct {
		name string
		err  error
		body string
		http int
	}{
		{"with metadata", statusOf(t, codes.NotFound, "No agent 'x'.", info("AGENT_NOT_FOUND", map[string]string{"agent_name": "x"})), `{"error":"AGENT_NOT_FOUND","message":"No agent 'x'.","details":{"agent_name":"x"}}`, 404},
		{"AGENT_EXISTS is 400, not 409", statusOf(t, codes.AlreadyExists, "Agent 'x' exists.", info("AGENT_EXISTS", nil)), `{"error":"AGENT_EXISTS","message":"Agent 'x' exists.","details":null}`, 400},
		{"exists", statusOf(t, codes.AlreadyExists, "m", info("TOKEN_EXISTS", nil)), `{"error":"TOKEN_EXISTS","message":"m","details":null}`, 409},
		{"PROJECT_NOT_FOUND is 400, not 404", statusOf(t, codes.InvalidArgument, "m", info("PROJECT_NOT_FOUND", nil)), `{"error":"PROJECT_NOT_FOUND","message":"m","details":null}`, 400},
		{"offline", statusOf(t, codes.FailedPrecondition, "m", info("AGENT_OFFLINE", nil)), `{"error":"AGENT_OFFLINE","message":"m","details":null}`, 400},
		{"busy", statusOf(t, codes.Aborted, "m <&>", info("AGENT_BUSY", nil)), `{"error":"AGENT_BUSY","message":"m <&>","details":null}`, 409},
		{"retry", statusOf(t, codes.Unavailable, "m", info("BACKEND_UNAVAILABLE", nil), &errdetails.RetryInfo{RetryDelay: durationpb.New(1500 * time.Millisecond)}), `{"error":"BACKEND_UNAVAILABLE","message":"m","details":{"retry_after_seconds":2}}`, 503},
		{"unavailable", status.Error(codes.Unavailable, "connection refused"), `{"error":"BACKEND_UNAVAILABLE","message":"connection refused","details":null}`, 503},
		{"no token", status.Error(codes.Unauthenticated, "m"), `{"error":"UNAUTHENTICATED","message":"m","details":null}`, 401},
		{"not allowed", status.Error(codes.PermissionDenied, "m"), `{"error":"PERMISSION_DENIED","message":"m","details":null}`, 403},
		{"limit", status.Error(codes.ResourceExhausted, "m"), `{"error":"LIMIT_REACHED","message":"m","details":null}`, 429},
		{"no such method", status.Error(codes.Unimplemented, "m"), `{"error":"UNIMPLEMENTED","message":"m","details":null}`, 501},
		{"bad value", status.Error(codes.InvalidArgument, "m"), `{"error":"INVALID_ARGUMENT","message":"m","details":null}`, 400},
		{"cancelled", fmt.Errorf("call: %w", context.Canceled), `{"error":"CANCELLED","message":"the call was cancelled","details":null}`, 499},
		{"too late", context.DeadlineExceeded, `{"error":"DEADLINE_EXCEEDED","message":"the call took longer than its caller allows","details":null}`, 504},
		{"internal, with a reason", statusOf(t, codes.Internal, "sql: secret", info("INTERNAL", nil)), internalBody, 500},
		{"unknown code", status.Error(codes.Unknown, "sql: secret"), internalBody, 500},
		{"not found, without a reason", status.Error(codes.NotFound, "secret"), internalBody, 500},
		{"any error", errors.New("secret"), internalBody, 500},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.body, string(wire.ErrorBody(c.err)))
			require.Equal(t, c.http, wire.HTTPStatus(c.err))
		})
	}
	require.Equal(t, 200, wire.HTTPStatus(nil))
}
