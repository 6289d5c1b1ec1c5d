package remote

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	runnerv1 "fleet/gen/fleet/runner/v1"
	"fleet/internal/fleet"
)

// TestTransportErrors checks that the client returns a *fleet.Error of its transport without a retry.
func TestTransportErrors(t *testing.T) {
	why := fleet.Errorf(fleet.ReasonAgentOffline, "path apps are disabled")
	c := NewClient(ClientConfig{URL: "http://runner", HTTP: &http.Client{Transport: failingTransport{why}}, RetryTimeout: time.Hour})
	err := c.Connect(fleet.Agent{UID: "one"}).Interrupt(context.Background(), fleet.Run{TaskID: "task"}, true)
	require.ErrorIs(t, err, why)
	_, err = c.Connect(fleet.Agent{UID: "one"}).Follow(context.Background(), fleet.Run{TaskID: "task"}, "", nil)
	require.ErrorIs(t, err, why)

	c = NewClient(ClientConfig{URL: "http://runner", HTTP: &http.Client{Transport: failingTransport{errors.New("refused")}}, RetryTimeout: time.Nanosecond})
	err = c.Connect(fleet.Agent{UID: "one"}).Interrupt(context.Background(), fleet.Run{TaskID: "task"}, true)
	require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(err))
}

type failingTransport struct{ err error }

func (f failingTransport) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

// TestCutRefusal cuts off responses that report an error. An incomplete response must not count as the answer of an
// older runner.
func TestCutRefusal(t *testing.T) {
	runner := &otherVersion{handshake: &runnerv1.HandshakeResponse{Protocol: Protocol, OldestProtocol: OldestProtocol}}
	var cuts atomic.Int32
	a := runner.serve(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/Interrupt") || cuts.Add(1) > 4 {
				next.ServeHTTP(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"code":`)) // the server cuts off a response that is shorter than announced
		})
	})
	require.NoError(t, a.Interrupt(t.Context(), fleet.Run{TaskID: "task"}, false))
	require.EqualValues(t, 5, cuts.Load())
}
