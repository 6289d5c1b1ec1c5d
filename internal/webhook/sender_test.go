package webhook

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

const (
	secretOne = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	secretTwo = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
)

// newRequest returns a request that is signed with both secrets.
func newRequest(address string) fleet.WebhookRequest {
	return fleet.WebhookRequest{URL: address, ID: "msg_1", At: time.Now(), Secrets: []string{secretOne, secretTwo}, Body: []byte(`{"type":"test"}`)}
}

// serve starts a receiver and returns its URL and its HOST:PORT.
func serve(t *testing.T, h http.HandlerFunc) (address, host string) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	require.NoError(t, err)
	return s.URL, u.Host
}

func TestRequestsAreSignedWithBothSecrets(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{secretOne, secretTwo} {
		var verifyErr error
		address, host := serve(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			var verifier *standardwebhooks.Webhook
			if verifier, verifyErr = standardwebhooks.NewWebhook(secret); verifyErr == nil {
				verifyErr = verifier.Verify(body, r.Header)
			}
			if r.Header.Get("User-Agent") != "Fleet/v1" || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("traceparent") != "" {
				verifyErr = fmt.Errorf("headers: %v", r.Header)
			}
			fmt.Fprint(w, "thanks\x00\x1b[31m \xff")
		})
		require.Equal(t, fleet.WebhookResponse{Code: 200, Body: "thanks[31m"}, New("v1", []string{host}).Send(t.Context(), newRequest(address)))
		require.NoError(t, verifyErr)
	}
}

// TestResponses checks what Send returns for the responses of receivers.
func TestResponses(t *testing.T) {
	t.Parallel()
	reached := false
	target, _ := serve(t, func(http.ResponseWriter, *http.Request) { reached = true })
	long := strings.Repeat("é", 100_000)
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		want   fleet.WebhookResponse
	}{
		{"a redirect is not followed", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, target, http.StatusTemporaryRedirect)
		}, fleet.WebhookResponse{Code: 307}},
		{"a Retry-After in seconds", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(http.StatusTooManyRequests)
		}, fleet.WebhookResponse{Code: 429, RetryAfter: 2 * time.Minute}},
		{"a negative Retry-After", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "-5")
			w.WriteHeader(http.StatusServiceUnavailable)
		}, fleet.WebhookResponse{Code: 503}},
		{"a long response is cut", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, long) }, fleet.WebhookResponse{Code: 200, Body: fleet.Shorten(strings.Repeat("é", 256), maxResponse)}},
		{"a response that breaks off counts", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "half")
		}, fleet.WebhookResponse{Code: 200, Body: "half"}},
		{"no response", func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }, fleet.WebhookResponse{Error: "EOF"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			address, host := serve(t, c.answer)
			require.Equal(t, c.want, New("v1", []string{host}).Send(t.Context(), newRequest(address)))
		})
	}
	t.Cleanup(func() { require.False(t, reached, "a redirect must not be followed") })
}

func TestSendTimesOut(t *testing.T) {
	t.Parallel()
	address, host := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // without this, the server does not notice that the client has left
		<-r.Context().Done()
	})
	s := New("v1", []string{host})
	s.timeout = 50 * time.Millisecond
	require.Equal(t, fleet.WebhookResponse{Error: "no answer within 50ms"}, s.Send(t.Context(), newRequest(address+"/secret")))
}

// TestPrivateAddressesAreNotCalled checks that a private address is never called: not in any notation, not through a name, and
// not through a redirect.
func TestPrivateAddressesAreNotCalled(t *testing.T) {
	t.Parallel()
	reached := false
	address, host := serve(t, func(http.ResponseWriter, *http.Request) { reached = true })
	_, port, err := net.SplitHostPort(host)
	require.NoError(t, err)
	s := New("v1", nil)
	for _, h := range []string{"127.0.0.1", "localhost", "LOCALHOST", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "[64:ff9b::7f00:1]", "10.0.0.1", "169.254.169.254", "[fd12::1]", "192.168.1.1"} {
		for _, scheme := range []string{"http", "https"} {
			privateURL := scheme + "://" + h + ":" + port + "/secret"
			require.Equal(t, fleet.ReasonInvalidArgument, fleet.ReasonOf(s.Check(privateURL)), privateURL)
			result := s.Send(t.Context(), newRequest(privateURL))
			require.Zero(t, result.Code, privateURL)
			require.NotContains(t, result.Error, "/secret")
		}
	}
	// Names like localtest.me resolve to 127.0.0.1. Only the dialer sees this address, so the dialer must refuse it.
	transport := s.client.Transport.(*http.Transport) //nolint:forcetypeassert // dial.PublicTransport returns one
	_, err = transport.DialContext(t.Context(), "tcp", net.JoinHostPort("localhost", port))
	require.ErrorContains(t, err, "not a public address")
	require.Equal(t, "the host is not on the public internet: ask the operator to add it to webhooks.allow", s.failureReason(t.Context(), &url.Error{Op: "Post", URL: address, Err: err}))
	require.False(t, reached)

	allowed := New("v1", []string{"localhost"})
	require.NoError(t, allowed.Check("http://localhost:"+port))
	require.Equal(t, 200, allowed.Send(t.Context(), newRequest("http://localhost:"+port)).Code)
	require.Equal(t, fleet.ReasonInvalidArgument, fleet.ReasonOf(allowed.Check(address)), "a name in allow must not allow its address")
	require.True(t, reached)
}

func TestCheck(t *testing.T) {
	t.Parallel()
	s := New("v1", []string{"hooks.internal", "10.0.0.5:8080"})
	for _, good := range []string{"https://example.com", "https://example.com:8443/a?b=c", "http://hooks.internal/x", "https://hooks.internal:9000", "http://10.0.0.5:8080", "https://8.8.8.8"} {
		require.NoError(t, s.Check(good), good)
	}
	for _, bad := range []string{"", "example.com", "/x", "ftp://example.com", "http://example.com", "https://", "https://:443", "https://me@example.com", "https://example.com#x", "http://10.0.0.5", "https://10.0.0.5:8081", "https://exa mple.com", "file:///etc/passwd"} {
		err := s.Check(bad)
		require.Equal(t, fleet.ReasonInvalidArgument, fleet.ReasonOf(err), bad)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "x": 0, "0": 0, "60": time.Minute, "-1": 0, "Sat, 28 Nov 2026 12:01:00 GMT": time.Minute, "Sat, 28 Nov 2026 11:00:00 GMT": 0, "99999999999999": 0,
	} {
		require.Equal(t, want, retryAfter(header, now), header)
	}
}
