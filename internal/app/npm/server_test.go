package npm

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	fleetv1 "fleet/gen/fleet/v1"
)

// server is `fleet serve` on free ports.
type server struct {
	http, grpc string // the addresses that it listens at
	conn       *grpc.ClientConn
	api        fleetv1.FleetServiceClient
	cmd        *exec.Cmd
	killed     bool
	ended      chan struct{} // closed when the log of cmd has ended

	mu  sync.Mutex
	log []string
}

// serve starts a server and waits until it is ready. It stops the server at the end of the test. The test fails if the
// server then returns an error or has logged one.
func serve(t *testing.T, h home, args ...string) *server {
	t.Helper()
	return serveWithEnv(t, h, h.env(), args...)
}

// serveWithEnv is serve with another environment than that of h.
func serveWithEnv(t *testing.T, h home, env []string, args ...string) *server {
	t.Helper()
	args = append([]string{"serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--data", h.path("data"), "--log-format", "json"}, args...)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program(t), args...)
	cmd.Env, cmd.Dir = env, string(h)
	isolate(cmd)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())

	s := &server{cmd: cmd, ended: make(chan struct{})}
	up := make(chan struct{})
	go func() {
		defer close(s.ended)
		s.follow(stderr, up)
	}()
	t.Cleanup(func() {
		if s.killed {
			return
		}
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		killer := time.AfterFunc(defaultTimeout, func() { _ = cmd.Process.Kill() })
		defer killer.Stop()
		<-s.ended
		require.NoError(t, cmd.Wait(), "the server ended with an error: %s", s.logLines())
		for _, line := range s.logLines() {
			require.NotContains(t, line, `"level":"ERROR"`)
		}
	})
	select {
	case <-up:
	case <-s.ended:
		require.Fail(t, "the server did not start", "%s", s.logLines())
	}
	s.waitUntilReady(t)
	s.conn, err = grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.conn.Close()) })
	s.api = fleetv1.NewFleetServiceClient(s.conn)
	return s
}

// kill kills the server and waits for its end.
func (s *server) kill(t *testing.T) {
	t.Helper()
	s.killed = true
	require.NoError(t, s.cmd.Process.Kill())
	<-s.ended
	require.Error(t, s.cmd.Wait())
}

// follow reads the server's log until it ends. It takes the server's addresses from the log, and then closes up.
func (s *server) follow(log io.Reader, up chan<- struct{}) {
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		var l struct{ Msg, HTTP, GRPC string }
		_ = json.Unmarshal(lines.Bytes(), &l)
		s.mu.Lock()
		s.log = append(s.log, lines.Text())
		s.mu.Unlock()
		if l.Msg == "server started" && s.http == "" {
			s.http, s.grpc = l.HTTP, l.GRPC
			close(up)
		}
	}
}

func (s *server) logLines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.log...)
}

// waitUntilReady waits until the server reports that it is ready.
func (s *server) waitUntilReady(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		r, err := http.Get("http://" + s.http + "/readyz")
		if err != nil {
			return false
		}
		_ = r.Body.Close()
		return r.StatusCode == http.StatusOK
	}, defaultTimeout, 10*time.Millisecond)
}

// mcp returns the URL of the server's MCP endpoint.
func (s *server) mcp() string { return "http://" + s.http + "/mcp" }
