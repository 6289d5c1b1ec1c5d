package rest

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
)

// fuzzFace is a face whose service accepts everything. It records an error if a request that gRPC could not carry
// reaches the service.
type fuzzFace struct {
	*face
	stub       *stub
	marshalErr error
}

func newFuzzFace(f *testing.F) *fuzzFace {
	s := newStub()
	face := &fuzzFace{stub: s, face: newTestFace(f, s, Config{})}
	s.answerUnary = func(name string, request proto.Message) (proto.Message, error) {
		_, face.marshalErr = proto.Marshal(request)
		return emptyAnswer(name)
	}
	s.answerWatch = func(*fleetv1.WatchFleetRequest, watchStream) error { return nil }
	return face
}

// serve sends a request as a client might. It checks that the server never answers with a 5xx status, that every error
// has the form of the contract, and that the service is not called for a request that is refused or with a request that gRPC could not
// carry.
func (f *fuzzFace) serve(t *testing.T, method, target, body string) {
	address, err := url.ParseRequestURI(target)
	if err != nil {
		t.Skip("net/http refuses it by itself")
	}
	before := f.stub.calls
	r := httptest.NewRequest(method, "http://localhost/", strings.NewReader(body))
	r.URL.Path, r.URL.RawPath, r.URL.RawQuery = address.Path, address.RawPath, address.RawQuery
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	require.NoError(t, f.marshalErr)
	if w.Code >= http.StatusBadRequest {
		require.Less(t, w.Code, http.StatusInternalServerError, w.Body.String())
		require.True(t, utf8.Valid(w.Body.Bytes()))
		readError(t, w)
		require.Equal(t, before, f.stub.calls)
	}
}

func FuzzQuery(f *testing.F) {
	for _, q := range []string{"", "page=1", "page=x&page_size=%ff", "status=idle", "a[b]=c", "a.b=c", "follow=true&cursor=now", "=&=", ";", "%", "lines=-0"} {
		f.Add(q)
	}
	face := newFuzzFace(f)
	f.Fuzz(func(t *testing.T, query string) {
		if strings.ContainsAny(query, "#") {
			t.Skip()
		}
		for _, path := range []string{"/v1/agents", "/v1/agents/papi/tasks", "/v1/events", "/v1/tasks/t1", "/v1/agents/papi/log"} {
			face.serve(t, http.MethodGet, path+"?"+query, "")
		}
	})
}

func FuzzBody(f *testing.F) {
	for _, b := range []string{
		"", "{}", "null", `{"name":"papi","project":"p","spec":"s"}`, `{"name":null}`, `{"name":1e999}`, `{"task_ids":["a"],"mode":"any"}`,
		`{"timeout_seconds":1e9}`, `{"timeout_seconds":-0}`, `{"request_id":"\ud800"}`, "\xff", `{"a":{"a":[`, `{"agent_name":"x"}`,
	} {
		f.Add(b)
	}
	face := newFuzzFace(f)
	f.Fuzz(func(t *testing.T, body string) {
		for _, path := range []string{"/v1/agents", "/v1/agents/papi/tasks", "/v1/agents/papi/tasks:stop", "/v1/tasks:wait", "/v1/tokens"} {
			face.serve(t, http.MethodPost, path, body)
		}
	})
}

func FuzzPath(f *testing.F) {
	for _, p := range []string{"/", "//", "/v1/agents/%2F", "/v1/agents/%25", "/v1/agents/:stop", "/v1/agents/a:stop:stop", "/v1/agents/..", "/v1/tasks/%ff", "/docs/x"} {
		f.Add(p)
	}
	face := newFuzzFace(f)
	f.Fuzz(func(t *testing.T, path string) {
		if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "?#") || len(path) > 1000 {
			t.Skip()
		}
		face.serve(t, http.MethodGet, path, "")
		face.serve(t, http.MethodDelete, path, "")
	})
}
