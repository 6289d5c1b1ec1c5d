package e2e

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	mcpclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	fleetv1 "fleet/gen/fleet/v1"
)

// server is a process of `fleet serve`, with clients for its faces.
type server struct {
	*testbed
	prefix  string // the prefix of the workspaces' names
	data    string // the data directory
	http    string // the URL of the HTTP address
	grpc    *grpc.ClientConn
	api     fleetv1.FleetServiceClient
	mcp     *mcpclient.Client
	secret  string // the token of the test's calls; empty: none
	cmd     *exec.Cmd
	ended   chan struct{} // closed when the log of cmd has ended
	stopped bool          // kill or stop was called

	mu  sync.Mutex
	log []string // lines
}

// setup configures a server.
type setup struct {
	prefix     string        // the prefix of workspace names; a new prefix if empty
	data       string        // the data directory; a new directory if empty
	store      string        // the URL of a Postgres database, which servers can share; SQLite in data if empty
	url        string        // the URL of Coder; the URL of the test bed if empty
	createWait time.Duration // create_wait; 90 s if it is 0
	coderLines string        // more lines of the section coder
	sections   string        // more sections of the configuration
	places     string        // the places of the agents; empty: [coder]
	port       int           // the port of the HTTP address; 0: any
	secret     string        // the token of the test's calls; empty: none, and the server asks for none
	// agents are definitions of subagents by name. A definition is an agent.md without its first line, which is ---.
	agents map[string]string
}

// serve starts a server and waits until it is ready. It stops the server at the end of the test.
func (b *testbed) serve(t testing.TB, c setup) *server {
	t.Helper()
	if c.prefix == "" {
		c.prefix = b.newPrefix(t)
	}
	if c.data == "" {
		c.data = t.TempDir()
	}
	if c.url == "" {
		c.url = b.url
	}
	if c.createWait == 0 {
		c.createWait = 90 * time.Second
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "fleet.yaml")
	require.NoError(t, os.WriteFile(config, []byte(c.yaml()), 0o600))
	for name, text := range c.agents {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "agents", name), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "agents", name, "agent.md"), []byte("---\n"+text), 0o600))
	}
	s := &server{testbed: b, prefix: c.prefix, data: c.data, secret: c.secret, ended: make(chan struct{})}
	s.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "serve", "--config", config,
		"--http", fmt.Sprintf("127.0.0.1:%d", c.port), "--grpc", "127.0.0.1:0", "--data", c.data, "--log-format", "json")
	s.cmd.Env = []string{serverEnv + "=1", "HOME=" + dir, "PATH=" + os.Getenv("PATH"), "CODER_URL=" + c.url, "CODER_SESSION_TOKEN=" + b.token}
	s.cmd.Dir = dir
	stderr, err := s.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, s.cmd.Start())
	up := make(chan [2]string, 1)
	go func() {
		defer close(s.ended)
		s.follow(stderr, up)
	}()
	t.Cleanup(func() { s.stop(t) })
	select {
	case addr := <-up:
		s.connect(t, addr[0], addr[1])
	case <-s.ended:
		require.FailNow(t, "the server did not start", "%s", s.logText())
	}
	return s
}

// yaml returns the configuration.
func (s setup) yaml() string {
	var y strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&y, format+"\n", args...) }
	line("places: %s", cmp.Or(s.places, "[coder]"))
	if s.store != "" {
		line("store: %q", s.store)
	}
	if s.secret != "" {
		line("auth: tokens")
	}
	line("create_wait: %s\n%scoder:\n  url: %s\n  prefix: %s\n%s", s.createWait, s.sections, s.url, s.prefix, s.coderLines)
	return y.String()
}

// bearer is the token of a client's calls; empty: none.
type bearer string

// headers returns the HTTP headers of a call.
func (b bearer) headers() map[string]string {
	if b == "" {
		return nil
	}
	return map[string]string{"Authorization": "Bearer " + string(b)}
}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if b == "" {
		return nil, nil
	}
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (bearer) RequireTransportSecurity() bool { return false }

// connect connects clients on all faces, and waits until the server is ready.
func (s *server) connect(t testing.TB, httpAddr, grpcAddr string) {
	t.Helper()
	var err error
	s.http = "http://" + httpAddr
	s.grpc, err = grpc.NewClient(grpcAddr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(bearer(s.secret)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.grpc.Close() })
	s.api = fleetv1.NewFleetServiceClient(s.grpc)
	s.mcp, err = mcpclient.NewStreamableHttpClient(s.http+"/mcp", transport.WithHTTPHeaders(bearer(s.secret).headers()))
	require.NoError(t, err)
	require.NoError(t, s.mcp.Start(context.WithoutCancel(t.Context())))
	t.Cleanup(func() { _ = s.mcp.Close() })
	initialize := mcp.InitializeRequest{}
	initialize.Params.ProtocolVersion, initialize.Params.ClientInfo = mcp.LATEST_PROTOCOL_VERSION, mcp.Implementation{Name: "e2e", Version: "1"}
	_, err = s.mcp.Initialize(t.Context(), initialize)
	require.NoError(t, err)
	within(t, defaultTimeout, "the server is ready", func() bool {
		r, err := http.Get(s.http + "/readyz")
		if err == nil {
			_ = r.Body.Close()
		}
		return err == nil && r.StatusCode == http.StatusOK
	})
}

// follow reads the server's log. It sends the server's addresses, which are in the log, to up.
func (s *server) follow(log io.Reader, up chan<- [2]string) {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l struct{ Msg, HTTP, GRPC string }
		_ = json.Unmarshal(lines.Bytes(), &l)
		s.mu.Lock()
		s.log = append(s.log, lines.Text())
		s.mu.Unlock()
		if l.Msg == "server started" {
			up <- [2]string{l.HTTP, l.GRPC}
		}
	}
}

func (s *server) logText() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.log, "\n")
}

// kill kills the server with SIGKILL and waits for its end.
func (s *server) kill(t testing.TB) {
	t.Helper()
	s.stopped = true
	require.NoError(t, s.cmd.Process.Kill())
	<-s.ended
	require.Error(t, s.cmd.Wait())
}

// stop stops the server if it still runs. The server's log must not contain the token for Coder and, unless the test has failed, no error.
func (s *server) stop(t testing.TB) {
	t.Helper()
	if !s.stopped {
		s.stopped = true
		require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
		killer := time.AfterFunc(defaultTimeout, func() { _ = s.cmd.Process.Kill() })
		defer killer.Stop()
		<-s.ended
		require.NoError(t, s.cmd.Wait(), "the server ended with an error: %s", s.logText())
	}
	log := s.logText()
	require.NotContains(t, log, s.token)
	if t.Failed() {
		t.Logf("log of the server:\n%s", log)
		return
	}
	require.NotContains(t, log, `"level":"ERROR"`)
}

// workspaceOf returns the name of the agent's workspace.
func (s *server) workspaceOf(agent string) string { return s.prefix + agent }
