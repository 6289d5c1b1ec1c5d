package inbound_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/face/inbound"
)

func TestGuard(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		host, method string
		headers      []string
		status       int
	}{
		"localhost":               {"localhost:8101", "GET", nil, 200},
		"localhost without port":  {"localhost", "GET", nil, 200},
		"upper case":              {"LOCALHOST.:8101", "GET", nil, 200},
		"below localhost":         {"fleet.localhost:8101", "GET", nil, 200},
		"IPv4":                    {"127.0.0.1:8101", "GET", nil, 200},
		"another loopback":        {"127.9.9.9", "GET", nil, 200},
		"IPv6":                    {"[::1]:8101", "GET", nil, 200},
		"IPv6 without port":       {"[::1]", "GET", nil, 200},
		"configured":              {"fleet.example:443", "GET", nil, 200},
		"configured, other case":  {"FLEET.example", "GET", nil, 200},
		"foreign":                 {"evil.example", "GET", nil, 403},
		"ends like a loopback":    {"evillocalhost", "GET", nil, 403},
		"begins like a loopback":  {"127.0.0.1.evil.example", "GET", nil, 403},
		"own address":             {"198.51.100.7:8101", "GET", nil, 200},
		"foreign IPv6 address":    {"[2001:db8::7]:8101", "GET", nil, 403},
		"foreign address":         {"192.0.2.1:8101", "GET", nil, 403},
		"none":                    {"", "GET", nil, 403},
		"other origin reads":      {"localhost:8101", "GET", []string{"Origin", "https://evil.example"}, 200},
		"other origin writes":     {"localhost:8101", "POST", []string{"Origin", "https://evil.example"}, 403},
		"other site writes":       {"localhost:8101", "POST", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		"other port writes":       {"localhost:8101", "POST", []string{"Origin", "http://localhost:3000"}, 403},
		"null origin writes":      {"localhost:8101", "POST", []string{"Origin", "null"}, 403},
		"own page writes":         {"localhost:8101", "POST", []string{"Origin", "http://localhost:8101", "Sec-Fetch-Site", "same-origin"}, 200},
		"program writes":          {"localhost:8101", "POST", nil, 200},
		"other origin preflights": {"localhost:8101", "OPTIONS", []string{"Origin", "https://evil.example", "Access-Control-Request-Method", "POST"}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
			h := inbound.Guard(next, []string{"Fleet.Example."}, func(path string) bool { return path == "/healthz" })
			serve := func(path string) *httptest.ResponseRecorder {
				ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(198, 51, 100, 7), Port: 8101})
				r := httptest.NewRequestWithContext(ctx, c.method, path, nil)
				r.Host = c.host
				for i := 0; i < len(c.headers); i += 2 {
					r.Header.Set(c.headers[i], c.headers[i+1])
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				return w
			}
			w := serve("/v1/agents")
			require.Equal(t, c.status, w.Code, w.Body.String())
			if c.status == http.StatusForbidden {
				var e struct{ Error, Message string }
				require.NoError(t, json.Unmarshal(w.Body.Bytes(), &e))
				require.Equal(t, "PERMISSION_DENIED", e.Error)
			}
			require.Equal(t, http.StatusOK, serve("/healthz").Code)
		})
	}
}
