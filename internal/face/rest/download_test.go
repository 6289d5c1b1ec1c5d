package rest

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"

	fleetv1 "fleet/gen/fleet/v1"
)

// gzipContent is what the stub sends as compressed content; no test unpacks it.
const gzipContent = "compressed"

func (*stub) DownloadTaskPayload(_ *fleetv1.DownloadTaskPayloadRequest, out grpc.ServerStreamingServer[httpbody.HttpBody]) error {
	info, err := anypb.New(&fleetv1.PayloadInfo{Size: int64(len(gzipContent)), Sha256: "abc", ContentEncoding: "gzip"})
	if err != nil {
		return err
	}
	return out.Send(&httpbody.HttpBody{ContentType: "text/plain", Data: []byte(gzipContent), Extensions: []*anypb.Any{info}})
}

// TestFailedPreconditionOfACompressedDownload checks that the answer to a failed If-Match does not have the length of the content, for which
// a client would wait.
func TestFailedPreconditionOfACompressedDownload(t *testing.T) {
	t.Parallel()
	f := newTestFace(t, newStub(), Config{})
	whole := serve(f, "GET", "/v1/tasks/t/payload", "", "Accept-Encoding", "gzip", "If-Match", `"abc"`)
	require.Equal(t, http.StatusOK, whole.Code, whole.Body)
	require.Equal(t, strconv.Itoa(len(gzipContent)), whole.Header().Get("Content-Length"))
	require.Equal(t, gzipContent, whole.Body.String())
	failed := serve(f, "GET", "/v1/tasks/t/payload", "", "Accept-Encoding", "gzip", "If-Match", `"old"`)
	require.Equal(t, http.StatusPreconditionFailed, failed.Code, failed.Body)
	require.Empty(t, failed.Header().Get("Content-Length"))
	require.Empty(t, failed.Header().Get("Content-Encoding"))
	require.Zero(t, failed.Body.Len())
}
