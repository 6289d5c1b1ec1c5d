package remote

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	runnerv1 "fleet/gen/fleet/runner/v1"
	"fleet/gen/fleet/runner/v1/runnerv1connect"
	"fleet/internal/fleet"
	"fleet/internal/waittest"
)

// interruptCounter is a runner that counts calls of Interrupt.
type interruptCounter struct {
	fleet.Runner
	interrupts int
}

func (r *interruptCounter) Connect(fleet.Agent) fleet.Runner { return r }

func (r *interruptCounter) Interrupt(context.Context, fleet.Run, bool) error {
	r.interrupts++
	return nil
}

// tap is a transport that records requests and can change them.
type tap struct {
	bodies [][]byte
	reqs   []*http.Request
	change func(*http.Request)
}

func (p *tap) RoundTrip(req *http.Request) (*http.Response, error) {
	if p.change != nil && procedureOf(req.URL.Path) != runnerv1connect.RunnerServiceHandshakeProcedure {
		p.change(req)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	p.bodies, p.reqs = append(p.bodies, body), append(p.reqs, req)
	return http.DefaultTransport.RoundTrip(req)
}

// repeat sends the last request again, and returns the status of the response.
func (p *tap) repeat(t *testing.T) int {
	t.Helper()
	last := p.reqs[len(p.reqs)-1]
	req, err := http.NewRequest(last.Method, last.URL.String(), bytes.NewReader(p.bodies[len(p.bodies)-1]))
	require.NoError(t, err)
	req.Header = last.Header.Clone()
	re, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	_ = re.Body.Close()
	return re.StatusCode
}

// fixture is a server, and a client whose requests go through a tap.
type fixture struct {
	runner *interruptCounter
	server *Server
	tap    *tap
	client *Client
	now    time.Time
}

func newFixture(t *testing.T) *fixture {
	public, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	b := &fixture{runner: &interruptCounter{}, tap: &tap{}, now: time.Now()}
	b.server, err = NewServer(b.runner, ServerConfig{Key: public, Now: func() time.Time { return b.now }})
	require.NoError(t, err)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b.server.Handler().ServeHTTP(w, r) }))
	t.Cleanup(s.Close)
	b.client = NewClient(ClientConfig{URL: s.URL, Key: private, HTTP: &http.Client{Transport: b.tap}, RetryTimeout: time.Nanosecond})
	return b
}

func (b *fixture) interrupt() error {
	return b.client.Connect(fleet.Agent{UID: "one"}).Interrupt(context.Background(), fleet.Run{TaskID: "task"}, true)
}

// TestForeignKey sends requests that are signed with another key, and requests without a signature.
func TestForeignKey(t *testing.T) {
	b := newFixture(t)
	_, b.client.config.Key, _ = ed25519.GenerateKey(nil)
	require.Equal(t, fleet.ReasonUnauthenticated, fleet.ReasonOf(b.interrupt()))
	b.tap.change = func(r *http.Request) { r.Header.Del(headerSignature) }
	require.Equal(t, fleet.ReasonUnauthenticated, fleet.ReasonOf(b.interrupt()))
	require.Zero(t, b.runner.interrupts)
}

// TestReplayed repeats an earlier request, also after a restart of the runner.
func TestReplayed(t *testing.T) {
	b := newFixture(t)
	require.NoError(t, b.interrupt())
	require.Equal(t, http.StatusUnauthorized, b.tap.repeat(t))
	var err error
	b.server, err = NewServer(b.runner, b.server.config)
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, b.tap.repeat(t))
	require.Equal(t, 1, b.runner.interrupts)

	b.client.config.RetryTimeout = waittest.Limit // Fleet itself notices the restart and continues
	require.NoError(t, b.interrupt())
	require.Equal(t, 2, b.runner.interrupts)
}

// TestExpired sends a request that has expired, also after the verifier has forgotten its nonce.
func TestExpired(t *testing.T) {
	b := newFixture(t)
	require.NoError(t, b.interrupt())
	for range 3 {
		b.now = b.now.Add(requestLifetime)
		require.Equal(t, http.StatusUnauthorized, b.tap.repeat(t))
	}
	require.Equal(t, 1, b.runner.interrupts)
	b.client.config.RetryTimeout = waittest.Limit // Fleet itself reads the runner's clock again
	require.NoError(t, b.interrupt())

	b.client.forgetSession()
	// The client must not sign requests that a program in place of the runner could use for a long time.
	b.now = b.now.Add(time.Hour)
	require.Equal(t, fleet.ReasonAgentOffline, fleet.ReasonOf(b.interrupt()))
	require.Equal(t, 2, b.runner.interrupts)
}

// TestTampered changes each signed part of a request.
func TestTampered(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"body": func(r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			body = bytes.Replace(body, []byte("task"), []byte("tusk"), 1)
			r.Body = io.NopCloser(bytes.NewReader(body))
		},
		"procedure": func(r *http.Request) {
			r.URL.Path = runnerv1connect.RunnerServiceDispatchProcedure
		},
		"agent":   func(r *http.Request) { r.Header.Set(headerAgent, "two") },
		"expiry":  func(r *http.Request) { r.Header.Set(headerExpires, "99999999999999") },
		"nonce":   func(r *http.Request) { r.Header.Set(headerNonce, "another") },
		"process": func(r *http.Request) { r.Header.Set(headerInstance, "another") },
		"hash":    func(r *http.Request) { r.Header.Set(headerBody, "") },
	} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t)
			b.tap.change = change
			require.Equal(t, fleet.ReasonUnauthenticated, fleet.ReasonOf(b.interrupt()))
			require.Zero(t, b.runner.interrupts)
		})
	}
}

// TestAgentMismatch sends a request that is signed for one agent and names another agent.
func TestAgentMismatch(t *testing.T) {
	b := newFixture(t)
	ctx := context.WithValue(context.Background(), requestAgentKey{}, "two")
	_, err := b.client.rpc.Interrupt(ctx, connect.NewRequest(&runnerv1.InterruptRequest{
		Agent: &runnerv1.Agent{Uid: "one"}, Run: &runnerv1.Run{TaskId: "task"},
	}))
	require.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(err))
	require.Zero(t, b.runner.interrupts)
}

// TestUnsigned checks that every call except the handshake, also future ones, requires a signature.
func TestUnsigned(t *testing.T) {
	b := newFixture(t)
	s := httptest.NewServer(b.server.Handler())
	defer s.Close()
	methods := runnerv1.File_fleet_runner_v1_runner_service_proto.Services().ByName("RunnerService").Methods()
	for i := range methods.Len() {
		name := string(methods.Get(i).Name())
		re, err := http.Post(s.URL+"/"+runnerv1connect.RunnerServiceName+"/"+name, "application/proto", strings.NewReader(""))
		require.NoError(t, err)
		_ = re.Body.Close()
		want := http.StatusUnauthorized
		if name == "Handshake" {
			want = http.StatusOK
		}
		require.Equal(t, want, re.StatusCode, name)
	}
}
