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

// fuzzed asks a face whose service accepts everything. Whatever a client sends, the fault is never the server's, and the
// answer is JSON.
func fuzzed(t *testing.T, method, target string, body string) {
	s := newStub()
	s.answer = func(name string, request proto.Message) (proto.Message, error) {
		if _, err := proto.Marshal(request); err != nil {
			t.Errorf("the service got what no network would carry: %v", err)
		}
		return emptyAnswer(t, name), nil
	}
	s.events = func(*fleetv1.WatchFleetRequest, watchStream) error { return nil }
	address, err := url.ParseRequestURI(target)
	if err != nil {
		t.Skip("net/http refuses it by itself")
	}
	r := httptest.NewRequest(method, "http://localhost/", strings.NewReader(body))
	r.URL.Path, r.URL.RawPath, r.URL.RawQuery = address.Path, address.RawPath, address.RawQuery
	w := httptest.NewRecorder()
	newTestFace(t, s, Config{}).ServeHTTP(w, r)
	if w.Code >= 400 {
		require.Less(t, w.Code, 500, w.Body.String())
		require.True(t, utf8.Valid(w.Body.Bytes()))
		problemOf(t, w)
		require.Zero(t, s.calls)
	}
}

func FuzzQuery(f *testing.F) {
	for _, q := range []string{"", "page=1", "page=x&page_size=%ff", "status=idle", "a[b]=c", "a.b=c", "follow=true&cursor=now", "=&=", ";", "%", "lines=-0"} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, query string) {
		if strings.ContainsAny(query, "#") {
			t.Skip()
		}
		for _, path := range []string{"/v1/agents", "/v1/agents/papi/tasks", "/v1/events", "/v1/tasks/t1", "/v1/agents/papi/log"} {
			fuzzed(t, http.MethodGet, path+"?"+query, "")
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
	f.Fuzz(func(t *testing.T, body string) {
		for _, path := range []string{"/v1/agents", "/v1/agents/papi/tasks", "/v1/agents/papi/tasks:stop", "/v1/tasks:wait", "/v1/tokens"} {
			fuzzed(t, http.MethodPost, path, body)
		}
	})
}

func FuzzPath(f *testing.F) {
	for _, p := range []string{"/", "//", "/v1/agents/%2F", "/v1/agents/%25", "/v1/agents/:stop", "/v1/agents/a:stop:stop", "/v1/agents/..", "/v1/tasks/%ff", "/docs/x"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, path string) {
		if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "?#") || len(path) > 1000 {
			t.Skip()
		}
		fuzzed(t, http.MethodGet, path, "")
		fuzzed(t, http.MethodDelete, path, "")
	})
}
