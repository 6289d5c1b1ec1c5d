package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/waittest"
)

// TestCallerIsCheckedBeforeBody checks that the server refuses a request of an unknown caller when it has read the
// header, before the body is sent.
func TestCallerIsCheckedBeforeBody(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"alice": {}, "gone": {Revoked: true}}})
	for _, caller := range []string{"", "nobody", "gone"} {
		header := ""
		if a := f.authorization(caller); a != "" {
			header = "Authorization: " + a + "\r\n"
		}
		for _, size := range []int{100, 40 << 20} {
			code, body := f.postWithoutBody(t, "/v1/agents", header, size)
			require.Equal(t, http.StatusUnauthorized, code, caller)
			require.Contains(t, body, `"error":"UNAUTHENTICATED"`, caller)
		}

		// A call without its message: the server has the header, and must not wait for the message.
		stream, err := f.conn.NewStream(f.authContext(t.Context(), caller), &fleetv1.FleetService_ServiceDesc.Streams[0], fleetv1.FleetService_CreateAgent_FullMethodName)
		require.NoError(t, err)
		require.Equal(t, codes.Unauthenticated, status.Code(stream.RecvMsg(&emptypb.Empty{})), caller)
	}

	// Over MCP, all callers may list tools. So the server reads small messages of unknown callers, but no large
	// messages.
	resp, body := f.send(t, http.MethodPost, f.url("/mcp"), strings.Repeat(" ", 1<<20), nil)
	require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
	require.Contains(t, body, `"error":"UNAUTHENTICATED"`)
}

// postWithoutBody sends the header of a POST without its body, and returns the answer.
func (f *testFleet) postWithoutBody(t *testing.T, path, header string, size int) (code int, body string) {
	t.Helper()
	c, err := net.Dial("tcp", f.HTTPAddr())
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	_, err = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", path, header, size)
	require.NoError(t, err)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(waittest.Limit)))
	answer, err := io.ReadAll(c)
	require.NoError(t, err, "the server must close the connection after the answer")
	_, err = fmt.Sscanf(string(answer), "HTTP/1.1 %d", &code)
	require.NoError(t, err)
	return code, string(answer)
}

// TestOtherUsersAreRefused checks that a server without tokens refuses other users of this machine on every face, with
// an error that says what to do. With any_local_user, it must serve them.
func TestOtherUsersAreRefused(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux can a server find out which user owns a connection")
	}
	asOtherUser := func(o *Options) { o.LocalUser = func() int { return os.Geteuid() + 1 } }
	f := newTestFleet(t, fleetConfig{Options: asOtherUser})
	for _, face := range []string{"grpc", "rest", "mcp"} {
		r := f.call(t, face, "list_agents", "", nil)
		require.NotNil(t, r.err, face)
		require.Equal(t, "PERMISSION_DENIED", r.err.Reason, face)
		for _, says := range []string{
			fmt.Sprintf("serves only the user who runs it (uid %d)", os.Geteuid()+1), fmt.Sprintf("the caller is uid %d", os.Geteuid()),
			"--auth tokens", "--any-local-user", "`fleet serve`",
		} {
			require.Contains(t, r.err.Message, says, face)
		}
	}
	_, err := f.callInProcess(t.Context(), call{method: methods["list_agents"], args: map[string]any{}})
	require.NoError(t, err, "the user who runs the process must be served")

	f = newTestFleet(t, fleetConfig{Options: asOtherUser, Config: func(c *Config) { c.AnyLocalUser = true }})
	for _, face := range []string{"grpc", "rest", "mcp"} {
		r := f.call(t, face, "list_agents", "", nil)
		require.Nil(t, r.err, "%s: %s", face, r.err)
	}
}

// TestHangUpsAreNotFailedLogins closes connections right after the header of a call. The server then cannot look up
// who called, but that is not a failed login.
func TestHangUpsAreNotFailedLogins(t *testing.T) {
	t.Parallel()
	log := &jsonLog{}
	f := newTestFleet(t, fleetConfig{Options: func(o *Options) { o.Log = log }, Config: func(c *Config) { c.LogFormat = "json" }})
	for range 50 {
		c, err := net.Dial("tcp", f.HTTPAddr())
		require.NoError(t, err)
		_, err = fmt.Fprint(c, "GET /v1/agents HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
		require.NoError(t, c.Close())
	}
	require.NoError(t, f.stop())
	require.Empty(t, log.linesWithMessage(t, "login failed"))
}

// TestRevocationEndsCalls checks that streams and long polls of a token end soon after the token is revoked, with an
// error that gives the reason.
func TestRevocationEndsCalls(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"alice": {}, "bob": {}}})
	for _, name := range []string{"alice", "bob"} {
		f.prepare(t, step{Agent: "papi", Caller: name},
			step{Task: map[string]any{"agent_name": "papi", "task_description": "listen"}, Caller: name, Save: map[string]string{name: "task.id"}})
	}
	calls := map[string]map[string]any{
		"watch_fleet": {"follow": true, "wait_seconds": json.Number("3600")},
		"wait_tasks":  {"timeout_seconds": json.Number("50")},
	}
	type result struct {
		what string
		r    reply
		err  error
	}
	results := make(chan result, 20)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	begin := func(name string) (n int) {
		for method, args := range calls {
			with := maps.Clone(args)
			if method == "wait_tasks" {
				with["task_ids"] = []any{f.variables[name]}
			}
			for _, face := range []string{"grpc", "rest", "sse", "mcp"} {
				if face == "sse" && method != "watch_fleet" {
					continue
				}
				n++
				running.Go(func() {
					start := time.Now()
					r, err := faces[face](f, ctx, call{method: methods[method], args: with, caller: name})
					for method == "wait_tasks" && err == nil && r.err == nil && time.Since(start) >= 50*time.Second { // its time is over
						start = time.Now()
						r, err = faces[face](f, ctx, call{method: methods[method], args: with, caller: name})
					}
					if name == "alice" || ctx.Err() == nil {
						results <- result{method + " on " + face, r, err}
					}
				})
			}
		}
		return n
	}
	n := begin("alice")
	wantOpen := int64(n + begin("bob"))
	waittest.Until(t, "a waiting call gives no signal", func() bool { return f.guard.openCalls.Load() == wantOpen })

	revoked := time.Now()
	admin := fleet.WithPrincipal(t.Context(), fleet.Principal{Name: "root", Scope: fleet.ScopeAdmin})
	_, err := f.service.RevokeToken(admin, "alice")
	require.NoError(t, err)
	for range n {
		e := <-results
		require.NoError(t, e.err, e.what)
		require.NotNil(t, e.r.err, e.what)
		require.Equal(t, "UNAUTHENTICATED", e.r.err.Reason, e.what)
		require.Contains(t, e.r.err.Message, "the token was revoked or has expired", e.what)
	}
	t.Logf("ended %s after the token was revoked", time.Since(revoked))
	require.Empty(t, results, "other callers' calls must continue")
	cancel()
	running.Wait()
}
