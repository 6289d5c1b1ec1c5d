package model

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Serve starts a server on a loopback port. When the test ends, it cancels waiting requests and closes the server.
func Serve(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// HangingServer returns the URL of an endpoint that never answers.
func HangingServer(t *testing.T) string {
	t.Helper()
	testEnded := make(chan struct{})
	s := Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the client has disconnected
		select {
		case <-r.Context().Done():
		case <-testEnded:
		}
	}))
	t.Cleanup(func() { close(testEnded) })
	return s.URL
}
