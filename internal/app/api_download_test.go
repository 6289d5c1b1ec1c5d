package app

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestLargeDownload downloads a payload that exceeds the message limit of gRPC clients, over gRPC and REST, as a whole and in part.
func TestLargeDownload(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{})
	ctx := f.authContext(t.Context(), "")
	contracts, tasks := fleetv1.NewLifecycleServiceClient(f.conn), fleetv1.NewFleetServiceClient(f.conn)
	contract, err := contracts.AgentStart(ctx, &fleetv1.AgentStartRequest{Contract: "listen"})
	require.NoError(t, err)
	// A block is repeated, since random bytes are slow to compress under the race detector.
	block := make([]byte, 10_007)
	for i, random := 0, rand.New(rand.NewPCG(1, 2)); i < len(block); i++ { //nolint:gosec // not a secret
		block[i] = byte(' ' + random.IntN(90))
	}
	want := bytes.Repeat(block, 6<<20/len(block))
	for piece := range slices.Chunk(want, 2<<20) {
		_, err = contracts.AppendPayload(ctx, &fleetv1.AppendPayloadRequest{AgentId: contract.GetAgentId(), Chunk: string(piece)})
		require.NoError(t, err)
	}
	_, err = contracts.AgentComplete(ctx, &fleetv1.AgentCompleteRequest{AgentId: contract.GetAgentId(), Summary: "Done."})
	require.NoError(t, err)
	list, err := tasks.ListTasks(ctx, &fleetv1.ListTasksRequest{Toolset: fleetv1.ListTasksRequest_lifecycle})
	require.NoError(t, err)
	id := list.GetTasks()[0].GetId()
	sum := sha256.Sum256(want)
	digest := hex.EncodeToString(sum[:])

	for _, offset := range []int64{0, 5_000_000} {
		stream, err := tasks.DownloadTaskPayload(ctx, &fleetv1.DownloadTaskPayloadRequest{TaskId: id, Offset: offset})
		require.NoError(t, err)
		var got []byte
		for first := true; ; first = false {
			m, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			require.Equal(t, first, len(m.GetExtensions()) == 1)
			if first {
				var info fleetv1.PayloadInfo
				require.NoError(t, m.GetExtensions()[0].UnmarshalTo(&info))
				require.Equal(t, offset, info.GetOffset())
				require.EqualValues(t, len(want), info.GetSize())
				require.Equal(t, digest, info.GetSha256())
				require.Equal(t, "task-"+id+".txt", info.GetFileName())
			}
			got = append(got, m.GetData()...)
		}
		require.True(t, bytes.Equal(want[offset:], got))
	}

	for span, part := range map[string][]byte{"": want, "bytes=5000000-5999999": want[5_000_000:6_000_000], "bytes=-300000": want[len(want)-300_000:]} {
		header := map[string]string{}
		if span != "" {
			header["Range"] = span
		}
		resp, got := f.send(t, http.MethodGet, f.url("/v1/tasks/"+id+"/payload"), "", header)
		require.True(t, string(part) == got, "%s: %d bytes", header, len(got))
		require.Equal(t, `"`+digest+`"`, resp.Header.Get("ETag"))
		require.Equal(t, `attachment; filename=task-`+id+`.txt`, resp.Header.Get("Content-Disposition"))
	}
}
