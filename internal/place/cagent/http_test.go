package cagent_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// newHTTP starts a server on a loopback port. When the test ends, it cancels waiting requests and closes the server.
func newHTTP(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// hanging returns the URL of an endpoint that never answers.
func hanging(t *testing.T) string {
	t.Helper()
	over := make(chan struct{})
	s := newHTTP(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the client has disconnected
		select {
		case <-r.Context().Done():
		case <-over:
		}
	}))
	t.Cleanup(func() { close(over) })
	return s.URL
}
