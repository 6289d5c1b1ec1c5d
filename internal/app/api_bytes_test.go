package app

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
)

// rawCodec is a codec that sends a []byte without encoding or checks, and ignores what it receives.
type rawCodec struct{}

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	b, _ := v.([]byte)
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

func (rawCodec) Unmarshal(mem.BufferSlice, any) error { return nil }

func (rawCodec) Name() string { return "proto" }

// TestInvalidMessageBytes sends messages that gRPC clients cannot encode. grpc-go must refuse them with the status Internal before
// Fleet's code runs. Nothing must change, and the server must continue.
func TestInvalidMessageBytes(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{}, step{Agent: "papi"})
	for name, request := range map[string]string{
		"a task that is not UTF-8": "\x0a\x04papi\x12\x03a\xffb",
		"an agent that is not":     "\x0a\x01\xff\x12\x01a",
		"cut off":                  "\x0a\x7fpapi",
		"no field number":          "\x00\x00",
	} {
		err := f.conn.Invoke(t.Context(), fleetv1.FleetService_StartAgentTask_FullMethodName, []byte(request), new([]byte), grpc.ForceCodecV2(rawCodec{}))
		require.Equal(t, codes.Internal, status.Code(err), "%s: %v", name, err)
		require.ErrorContains(t, err, "unmarshal", name)
	}
	f.prepare(t, step{Call: "show_agent_task_history", With: map[string]any{"agent_name": "papi"}, Until: map[string]any{"total_count": 0}})
}
