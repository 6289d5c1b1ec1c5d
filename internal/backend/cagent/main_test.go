package cagent_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

var mu sync.Mutex // of what tests share

// newHTTP serves on a loopback port until the test has ended. Requests that wait are given up then.
func newHTTP(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}
