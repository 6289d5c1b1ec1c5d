package app

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestSharingCloner checks that a copy equals the original and replaces the old content, and that a clone shares nothing with the
// original.
func TestSharingCloner(t *testing.T) {
	t.Parallel()
	for _, in := range []proto.Message{
		&fleetv1.ListAgentsResponse{},
		&fleetv1.ListAgentsResponse{Agents: []*fleetv1.AgentSummary{{Name: "papi"}}, TotalCount: 1, ObservedAt: timestamppb.Now()},
		&fleetv1.Agent{Metadata: map[string]string{"a": "b"}, CurrentTask: wrapperspb.String("t"), Waiting: proto.Bool(false)},
	} {
		out := in.ProtoReflect().New().Interface()
		require.NoError(t, sharingCloner{}.Copy(out, in))
		require.True(t, proto.Equal(in, out))
		require.NoError(t, sharingCloner{}.Copy(out, in.ProtoReflect().New().Interface()))
		require.Zero(t, proto.Size(out), "the old content must be replaced")
	}
	require.Error(t, sharingCloner{}.Copy(&fleetv1.Agent{}, &fleetv1.Task{Id: "t"}))

	in := &fleetv1.ListAgentsResponse{Agents: []*fleetv1.AgentSummary{{Name: "papi"}}}
	clone, err := sharingCloner{}.Clone(in)
	require.NoError(t, err)
	in.Agents[0].Name = "sony"
	require.Equal(t, "papi", clone.(*fleetv1.ListAgentsResponse).GetAgents()[0].GetName())
}
