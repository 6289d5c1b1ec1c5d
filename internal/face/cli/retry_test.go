package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestMutationsSurviveARestart cuts the connection after the server has received a call and before it has answered. The repeated
// call must have the same request id, so that the server does not execute it twice.
func TestMutationsSurviveARestart(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	var mu sync.Mutex
	var ids []string
	var server string
	var stop func()
	s.beforeUnary = func(ctx context.Context, method string, req any) error {
		r, ok := req.(*fleetv1.CreateAgentRequest)
		if !ok {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if ids = append(ids, r.GetRequestId()); len(ids) > 1 {
			return nil
		}
		go func() { // a server that crashes does not wait for its handlers
			stop()
			s.listen(t, server)
		}()
		<-ctx.Done()
		return ctx.Err()
	}
	server, stop = s.listen(t, "")
	out, line := mustRun(t, server, "agent", "create", "papi", "--project", "shell", "--spec", "x")
	require.Equal(t, "Agent 'papi' created successfully\n", out)
	require.Contains(t, line, "broke")
	require.Len(t, ids, 2)
	require.NotEmpty(t, ids[0])
	require.Equal(t, ids[0], ids[1])
}

// TestBrokenCallWithoutIDIsNotRepeated checks that a call without a request id, such as the creation of a token, is not repeated after its
// connection broke.
func TestBrokenCallWithoutIDIsNotRepeated(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	calls := 0
	s.beforeUnary = func(context.Context, string, any) error {
		calls++
		return status.Error(codes.Unavailable, "the connection broke")
	}
	server, _ := s.listen(t, "")
	_, line, code := runFleet(server, "token", "create", "x")
	require.Equal(t, ExitUnavailable, code)
	require.Equal(t, 1, calls)
	require.Contains(t, line, "the server may have carried out the request; check its effect before you try again")
}

func TestBackendErrorsAreNotRetried(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	calls := 0
	s.beforeUnary = func(context.Context, string, any) error {
		calls++
		return statusError(codes.Unavailable, "BACKEND_UNAVAILABLE", "Coder does not answer.", nil)
	}
	server, _ := s.listen(t, "")
	_, _, code := runFleet(server, "agent", "list")
	require.Equal(t, ExitUnavailable, code)
	require.Equal(t, 1, calls)
}

func TestCallHasTheToken(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	var got []string
	s.beforeUnary = func(ctx context.Context, _ string, _ any) error {
		md, _ := metadata.FromIncomingContext(ctx)
		got = append(got, fmt.Sprint(md.Get("authorization")))
		return nil
	}
	server, _ := s.listen(t, "")
	c := newCommand(server)
	c.env["FLEET_TOKEN"] = " s3cret\n"
	require.Equal(t, ExitOK, c.run("agent", "list"))
	require.Equal(t, []string{"[Bearer s3cret]"}, got)
	require.NotContains(t, c.stdout.String()+c.stderr.String(), "s3cret")
}

// TestOnlyUTF8IsSent checks that commands refuse arguments and files in Latin-1. They must name the wrong text, and send nothing.
func TestOnlyUTF8IsSent(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	var calledMethods []string
	s.beforeUnary = func(_ context.Context, method string, _ any) error {
		calledMethods = append(calledMethods, method)
		return nil
	}
	server, stop := s.listen(t, "127.0.0.1:0")
	defer stop()
	const latin1 = "caf\xe9"
	dir := t.TempDir()
	file, odd := filepath.Join(dir, "script.sh"), filepath.Join(dir, latin1)
	for _, path := range []string{file, odd} {
		require.NoError(t, os.WriteFile(path, []byte("echo "+latin1+"\n"), 0o600))
	}
	for _, c := range []struct {
		what string
		args []string
	}{
		{"agent name", []string{"agent", "show", latin1}},
		{"name", []string{"agent", "create", latin1, "--project", "shell", "--spec", "x"}},
		{"spec", []string{"agent", "create", "papi", "--project", "shell", "--spec", latin1}},
		{"spec", []string{"agent", "create", "papi", "--project", "shell", "--spec-file", file}},
		{"project", []string{"agent", "list", "--project", latin1}},
		{"description", []string{"task", "start", "papi", latin1}},
		{"description", []string{"task", "start", "papi", "@" + file}},
		{"description", []string{"task", "start", "papi", "@" + odd}},
		{"message", []string{"task", "message", "papi", latin1}},
		{"text", []string{"search", latin1}},
		{"agent name", []string{"watch", "--agent", latin1}},
		{"agent session id", []string{"sessions", "close", latin1}},
		{"message", []string{"sessions", "send", "s1", latin1}},
	} {
		stdout, stderr, code := runFleet(server, c.args...)
		require.Equal(t, ExitUsage, code, "%q: %s", c.args, stderr)
		require.Empty(t, stdout, c.args)
		require.Contains(t, stderr, c.what+" is not text in UTF-8; convert it, for example with iconv", c.args)
	}
	require.Empty(t, calledMethods)
}
