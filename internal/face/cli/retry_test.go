package cli

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestMutationsSurviveARestart cuts the connection after the server has executed a call and before the client has the
// answer. The repeated call must carry the same id, and must not be executed twice.
func TestMutationsSurviveARestart(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	var mu sync.Mutex
	var ids []string
	var server string
	var stop func()
	s.unary = func(ctx context.Context, method string, req any) error {
		r, ok := req.(*fleetv1.CreateAgentRequest)
		if !ok {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if ids = append(ids, r.GetRequestId()); len(ids) > 1 {
			return nil
		}
		_, err := s.CreateAgent(ctx, r)
		go func() { // a server that crashes does not wait for its handlers
			stop()
			s.listen(t, server)
		}()
		<-ctx.Done()
		return err
	}
	server, stop = s.listen(t, "")
	out, line, code := fleet(server, "agent", "create", "papi", "--project", "shell", "--spec", "x")
	require.Equal(t, ExitOK, code, line)
	require.Equal(t, "Agent 'papi' created successfully\n", out)
	require.Contains(t, line, "broke")
	require.Len(t, ids, 2)
	require.NotEmpty(t, ids[0])
	require.Equal(t, ids[0], ids[1])
}

// TestBrokenCallWithoutIDIsNotRepeated breaks calls that have no request id, for example the creation of a token.
func TestBrokenCallWithoutIDIsNotRepeated(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	calls := 0
	s.unary = func(context.Context, string, any) error {
		calls++
		return status.Error(codes.Unavailable, "the connection broke")
	}
	server, _ := s.listen(t, "")
	_, line, code := fleet(server, "token", "create", "x")
	require.Equal(t, ExitUnavailable, code)
	require.Equal(t, 1, calls)
	require.Contains(t, line, "the server may have carried out the request; check its effect before you try again")
}

func TestTheBackendsErrorsAreNotRepeated(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	calls := 0
	s.unary = func(context.Context, string, any) error {
		calls++
		return refusal(codes.Unavailable, "BACKEND_UNAVAILABLE", "Coder does not answer.", nil)
	}
	server, _ := s.listen(t, "")
	_, _, code := fleet(server, "agent", "list")
	require.Equal(t, ExitUnavailable, code)
	require.Equal(t, 1, calls)
}

func TestTheTokenTravelsWithEveryCall(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	var got []string
	s.unary = func(ctx context.Context, _ string, _ any) error {
		md, _ := metadata.FromIncomingContext(ctx)
		got = append(got, fmt.Sprint(md.Get("authorization")))
		return nil
	}
	server, _ := s.listen(t, "")
	c := newCommand(server)
	c.env["FLEET_TOKEN"] = " s3cret\n"
	require.Equal(t, ExitOK, c.run("agent", "list"))
	require.Equal(t, []string{"[Bearer s3cret]"}, got)
	require.NotContains(t, c.out.String()+c.err.String(), "s3cret")
}
