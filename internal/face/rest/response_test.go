package rest

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestLargeResponsesAreCompressed checks that large responses are compressed for clients that accept gzip, and that small responses, errors
// and streams are not.
func TestLargeResponsesAreCompressed(t *testing.T) {
	t.Parallel()
	s := newStub()
	large := strings.Repeat("papi ", 1000)
	responses := map[string]proto.Message{
		"ListAgents": &fleetv1.ListAgentsResponse{Agents: []*fleetv1.AgentSummary{{Name: large}}},
		"ShowAgent":  &fleetv1.ShowAgentResponse{Agent: &fleetv1.Agent{Name: large}},
		"ShowTask":   &fleetv1.ShowTaskResponse{Task: &fleetv1.TaskDetail{Id: "small"}},
	}
	s.answerUnary = func(method string, _ proto.Message) (proto.Message, error) { return responses[method], nil }
	f := newTestFace(t, s, Config{})
	for _, path := range []string{"/v1/agents", "/v1/agents/papi"} {
		plain := serve(f, "GET", path, "")
		require.Equal(t, http.StatusOK, plain.Code, plain.Body)
		require.Empty(t, plain.Header().Get("Content-Encoding"))
		require.Contains(t, plain.Header().Get("Vary"), "Accept-Encoding")
		for _, accepts := range []string{"gzip", "br, GZIP;q=0.5", "*"} {
			packed := serve(f, "GET", path, "", "Accept-Encoding", accepts)
			require.Equal(t, "gzip", packed.Header().Get("Content-Encoding"), accepts)
			require.Equal(t, plain.Header().Get("Vary"), packed.Header().Get("Vary"))
			require.Equal(t, plain.Header().Get("ETag"), packed.Header().Get("ETag"), "both forms must have the same weak tag")
			require.Equal(t, strconv.Itoa(packed.Body.Len()), packed.Header().Get("Content-Length"))
			require.Less(t, packed.Body.Len(), plain.Body.Len()/10)
			require.Equal(t, plain.Body.String(), unpackBody(t, packed))
		}
		for _, accepts := range []string{"", "br", "gzip;q=0", "*, gzip;q=0"} {
			same := serve(f, "GET", path, "", "Accept-Encoding", accepts)
			require.Empty(t, same.Header().Get("Content-Encoding"), accepts)
			require.Equal(t, plain.Body.String(), same.Body.String())
		}
	}

	small := serve(f, "GET", "/v1/tasks/small", "", "Accept-Encoding", "gzip")
	require.Equal(t, http.StatusOK, small.Code, small.Body)
	require.Empty(t, small.Header().Get("Content-Encoding"))
	require.Equal(t, "Accept-Encoding", small.Header().Get("Vary"))

	tag := serve(f, "GET", "/v1/agents", "").Header().Get("ETag")
	unchanged := serve(f, "GET", "/v1/agents", "", "Accept-Encoding", "gzip", "If-None-Match", tag)
	require.Equal(t, http.StatusNotModified, unchanged.Code)
	require.Empty(t, unchanged.Header().Get("Content-Encoding"))
	require.Zero(t, unchanged.Body.Len())

	s.answerUnary = answerWith(nil, statusError(codes.NotFound, fleetv1.ErrorReason_AGENT_NOT_FOUND, large))
	failed := serve(f, "GET", "/v1/agents/papi", "", "Accept-Encoding", "gzip")
	require.Equal(t, http.StatusNotFound, failed.Code)
	require.Greater(t, failed.Body.Len(), minGzip)
	require.Empty(t, failed.Header().Get("Content-Encoding"))

	s.answerWatch = func(_ *fleetv1.WatchFleetRequest, out watchStream) error {
		return out.Send(&fleetv1.WatchFleetResponse{Events: []*fleetv1.Event{{Text: large}}})
	}
	for _, form := range []string{"text/event-stream", "application/x-ndjson"} {
		stream := serve(f, "GET", "/v1/events", "", "Accept-Encoding", "gzip", "Accept", form)
		require.Equal(t, http.StatusOK, stream.Code, stream.Body)
		require.Empty(t, stream.Header().Get("Content-Encoding"), "a stream must not wait until there is enough to compress")
		require.Contains(t, stream.Body.String(), large)
	}
}

// unpackBody returns the body of a response that is compressed by gzip.
func unpackBody(t *testing.T, r *httptest.ResponseRecorder) string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(r.Body.Bytes()))
	require.NoError(t, err)
	all, err := io.ReadAll(z)
	require.NoError(t, err)
	return string(all)
}

func TestHasTag(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]bool{
		`W/"a1"`: true, `"a1"`: true, `*`: true, ` * `: true, `"x", W/"a1"`: true, "\"x\" ,\t\"a1\"": true,
		``: false, `a1`: false, `"a"`: false, `"a1`: false, `w/"a1"`: false, `"A1"`: false, `"a1""`: false,
	} {
		require.Equal(t, want, hasTag([]string{header}, `W/"a1"`), header)
	}
	require.True(t, hasTag([]string{`"x"`, `"a1"`}, `W/"a1"`), "the header may be repeated")
	require.False(t, hasTag(nil, `W/"a1"`))
}
