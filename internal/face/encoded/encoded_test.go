package encoded_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/encoded"
	"fleet/internal/face/wire"
)

func response() *encoded.Response {
	stale, next := "down", "2"
	return &encoded.Response{
		Part: encoded.NewPart(&fleetv1.ListAgentsResponse{
			Agents: []*fleetv1.AgentSummary{{Name: "papi", Owner: "alice"}, {Name: "quote \" <b>"}}, TotalCount: 3, NextCursor: &next,
		}),
		Live: &fleetv1.ListAgentsResponse{
			ObservedAt: &timestamppb.Timestamp{Seconds: 5}, StaleReason: &stale, Places: []*fleetv1.PlaceStatus{{Name: "coder", Reason: &stale}},
		},
	}
}

func fullMessage() *fleetv1.ListAgentsResponse {
	stale, next := "down", "2"
	return &fleetv1.ListAgentsResponse{
		Agents: []*fleetv1.AgentSummary{{Name: "papi", Owner: "alice"}, {Name: "quote \" <b>"}}, TotalCount: 3, NextCursor: &next,
		ObservedAt: &timestamppb.Timestamp{Seconds: 5}, StaleReason: &stale, Places: []*fleetv1.PlaceStatus{{Name: "coder", Reason: &stale}},
	}
}

func TestMessage(t *testing.T) {
	t.Parallel()
	a := response()
	got := a.Message()
	require.True(t, proto.Equal(fullMessage(), got))
	got.(*fleetv1.ListAgentsResponse).Agents[0].Name = "changed"
	require.True(t, proto.Equal(fullMessage(), a.Message()), "each caller must get its own message")
}

func TestCodec(t *testing.T) {
	t.Parallel()
	c := encoded.Codec{CodecV2: encoding.GetCodecV2(grpcproto.Name)}
	a := response()
	for _, v := range []any{a, fullMessage(), a} {
		data, err := c.Marshal(v)
		require.NoError(t, err)
		got := &fleetv1.ListAgentsResponse{}
		require.NoError(t, c.Unmarshal(data, got))
		require.True(t, proto.Equal(fullMessage(), got))
	}
	_, err := c.Marshal("not a message")
	require.Error(t, err)
}

func TestJSON(t *testing.T) {
	t.Parallel()
	a := response()
	check := func(a *encoded.Response) *encoded.JSON {
		t.Helper()
		want, err := wire.Marshal(a.Message())
		require.NoError(t, err)
		j, err := a.JSON()
		require.NoError(t, err)
		require.Equal(t, string(want), string(j.Data()))
		require.Equal(t, string(wire.AppendString(nil, string(want))), string(j.Quoted()))
		require.Equal(t, string(want)+"\n", string(j.Line))
		return j
	}
	first := check(a)
	packed := first.Gzip()
	z, err := gzip.NewReader(bytes.NewReader(packed))
	require.NoError(t, err)
	unpacked, err := io.ReadAll(z)
	require.NoError(t, err)
	require.Equal(t, string(first.Line), string(unpacked))
	require.Same(t, &packed[0], &check(&encoded.Response{Part: a.Part, Live: a.Live}).Gzip()[0], "the response must be compressed only once")
	require.Same(t, first, check(a), "the response must be encoded only once")
	later := &encoded.Response{Part: a.Part, Live: &fleetv1.ListAgentsResponse{ObservedAt: &timestamppb.Timestamp{Seconds: 6}}}
	require.NotEqual(t, string(first.Line), string(check(later).Line))
	check(a)
	check(&encoded.Response{Part: encoded.NewPart(&fleetv1.ListAgentsResponse{}), Live: &fleetv1.ListAgentsResponse{}})

	_, err = (&encoded.Response{Part: encoded.NewPart(&fleetv1.ListAgentsResponse{Agents: []*fleetv1.AgentSummary{{Name: "\xff"}}}), Live: &fleetv1.ListAgentsResponse{}}).JSON()
	require.Error(t, err)
	_, err = (&encoded.Response{Part: encoded.NewPart(&fleetv1.Agent{}), Live: &fleetv1.Agent{}}).JSON()
	require.ErrorContains(t, err, "the first field of fleet.v1.Agent is not a list")
}

func TestRespond(t *testing.T) {
	t.Parallel()
	require.False(t, encoded.Respond(t.Context(), response()))
	ctx, receiver := encoded.NewReceiver(t.Context())
	require.Nil(t, receiver.Response())
	a := response()
	require.True(t, encoded.Respond(ctx, a))
	require.Same(t, a, receiver.Response())
}
