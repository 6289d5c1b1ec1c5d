package admission

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
)

// nested returns a value with n levels of lists.
func nested(n int) *structpb.Value {
	v := structpb.NewNumberValue(1)
	for range n {
		v = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{v}})
	}
	return v
}

// TestCheckValues checks the limits of values of free form in all messages: also with 3,000 levels, and with many parts.
func TestCheckValues(t *testing.T) {
	t.Parallel()
	object := func(v *structpb.Value) *structpb.Struct {
		return &structpb.Struct{Fields: map[string]*structpb.Value{"a": v}}
	}
	many := &structpb.ListValue{Values: make([]*structpb.Value, maxValueSize/2)}
	require.NoError(t, checkValues(&fleetv1.ExecuteAgentRequestRequest{Context: object(nested(maxValueDepth - 1))}))
	require.NoError(t, checkValues(&fleetv1.ListAgentsRequest{}))
	for want, req := range map[string]any{
		"context has more than 63 levels":   &fleetv1.ExecuteAgentRequestRequest{Context: object(nested(maxValueDepth))},
		"config has more than 63 levels":    &fleetv1.ExecuteAgentRequestRequest{Config: object(nested(3000))},
		"tool_spec has more than 1048576":   &fleetv1.RegisterToolWithAgentRequest{ToolSpec: object(structpb.NewListValue(many))},
		"arguments has more than 63 levels": &fleetv1.SendMessageResponse{Events: []*fleetv1.TurnContent{{Arguments: nested(maxValueDepth + 1)}}},
	} {
		err := checkValues(req)
		require.Equal(t, fleet.ReasonInvalidArgument, fleet.ReasonOf(err), want)
		require.ErrorContains(t, err, want)
	}
}
