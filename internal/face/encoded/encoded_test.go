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

func answer() *encoded.Answer {
	stale, next := "down", "2"
	return &encoded.Answer{
		Part: encoded.NewPart(&fleetv1.ListAgentsResponse{
			Agents: []*fleetv1.AgentSummary{{Name: "papi", Owner: "alice"}, {Name: "quote \" <b>"}}, TotalCount: 3, NextCursor: &next,
		}),
		Live: &fleetv1.ListAgentsResponse{
			ObservedAt: &timestamppb.Timestamp{Seconds: 5}, StaleReason: &stale, Places: []*fleetv1.PlaceStatus{{Name: "coder", Reason: &stale}},
		},
	}
}

func jsonAnswer() *fleetv1.ListAgentsResponse {
	stale, next := "down", "2"
	return &fleetv1.ListAgentsResponse{
		Agents: []*fleetv1.AgentSummary{{Name: "papi", Owner: "alice"}, {Name: "quote \" <b>"}}, TotalCount: 3, NextCursor: &next,
		ObservedAt: &timestamppb.Timestamp{Seconds: 5}, StaleReason: &stale, Places: []*fleetv1.PlaceStatus{{Name: "coder", Reason: &stale}},
	}
}

func TestMessage(t *testing.T) {
	t.Parallel()
	a := answer()
	got := a.Message()
	require.True(t, proto.Equal(jsonAnswer(), got))
	got.(*fleetv1.ListAgentsResponse).Agents[0].Name = "changed"
	require.True(t, proto.Equal(jsonAnswer(), a.Message()), "each caller must get its own message")
}

func TestCodec(t *testing.T) {
	t.Parallel()
	c := encoded.Codec{CodecV2: encoding.GetCodecV2(grpcproto.Name)}
	a := answer()
	for _, v := range []any{a, jsonAnswer(), a} {
		data, err := c.Marshal(v)
		require.NoError(t, err)
		got := &fleetv1.ListAgentsResponse{}
		require.NoError(t, c.Unmarshal(data, got))
		require.True(t, proto.Equal(jsonAnswer(), got))
	}
	_, err := c.Marshal("not a message")
	require.Error(t, err)
}

func TestJSON(t *testing.T) {
	t.Parallel()
	a := answer()
	check := func(a *encoded.Answer) (line []byte) {
		t.Helper()
		want, err := wire.Marshal(a.Message())
		require.NoError(t, err)
		data, text, err := a.JSON()
		require.NoError(t, err)
		require.Equal(t, string(want), string(data))
		require.Equal(t, string(wire.AppendString(nil, string(want))), string(text))
		line, err = a.Line()
		require.NoError(t, err)
		require.Equal(t, string(want)+"\n", string(line))
		return line
	}
	first := check(a)
	packed, err := a.Gzip()
	require.NoError(t, err)
	z, err := gzip.NewReader(bytes.NewReader(packed))
	require.NoError(t, err)
	unpacked, err := io.ReadAll(z)
	require.NoError(t, err)
	require.Equal(t, string(first), string(unpacked))
	again, err := (&encoded.Answer{Part: a.Part, Live: a.Live}).Gzip()
	require.NoError(t, err)
	require.Same(t, &packed[0], &again[0], "the answer must be compressed only once")
	require.Same(t, &first[0], &check(a)[0], "the part must be encoded only once")
	later := &encoded.Answer{Part: a.Part, Live: &fleetv1.ListAgentsResponse{ObservedAt: &timestamppb.Timestamp{Seconds: 6}}}
	require.NotEqual(t, string(first), string(check(later)))
	check(a)
	check(&encoded.Answer{Part: encoded.NewPart(&fleetv1.ListAgentsResponse{}), Live: &fleetv1.ListAgentsResponse{}})

	_, _, err = (&encoded.Answer{Part: encoded.NewPart(&fleetv1.ListAgentsResponse{Agents: []*fleetv1.AgentSummary{{Name: "\xff"}}}), Live: &fleetv1.ListAgentsResponse{}}).JSON()
	require.Error(t, err)
	_, err = (&encoded.Answer{Part: encoded.NewPart(&fleetv1.Agent{}), Live: &fleetv1.Agent{}}).Line()
	require.ErrorContains(t, err, "the first field of fleet.v1.Agent is not a list")
}

func TestPut(t *testing.T) {
	t.Parallel()
	require.False(t, encoded.Put(t.Context(), answer()))
	ctx, offer := encoded.NewOffer(t.Context())
	require.Nil(t, offer.Answer())
	a := answer()
	require.True(t, encoded.Put(ctx, a))
	require.Same(t, a, offer.Answer())
}
