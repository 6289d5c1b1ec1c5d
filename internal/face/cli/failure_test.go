package cli

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
)

func TestExitCodes(t *testing.T) {
	t.Parallel()
	agent := map[string]string{"agent_name": "papi"}
	for _, c := range []struct {
		err  error
		code int
		line string
	}{
		{statusError(codes.NotFound, "AGENT_NOT_FOUND", "no agent 'x'", agent, "{list_agents} shows the agents"), 3, `no agent 'x'; "fleet agent list" shows the agents`},
		{statusError(codes.NotFound, "TASK_NOT_FOUND", "no task", nil, "{list_tasks} shows the tasks"), 3, `no task; "fleet task list" shows the tasks`},
		{statusError(codes.NotFound, "PROJECT_NOT_FOUND", "no project", nil), 3, "no project"},
		{statusError(codes.InvalidArgument, "ROLE_NOT_FOUND", "no role", map[string]string{"project": "web"}, "{list_agent_roles} shows the roles"), 3, `no role; "fleet role list web" shows the roles`},
		{statusError(codes.NotFound, "NO_RUNNING_TASK", "idle", agent, "{show_agent_task_history} shows them"), 3, `idle; "fleet task list papi" shows them`},
		{statusError(codes.AlreadyExists, "AGENT_EXISTS", "taken", agent, "choose another name, or delete it with {delete_agent} first"), 4, `taken; choose another name, or delete it with "fleet agent delete papi" first`},
		{statusError(codes.AlreadyExists, "TOKEN_EXISTS", "taken", nil), 4, "taken"},
		{statusError(codes.Aborted, "AGENT_BUSY", "busy", agent, "wait for it with {wait_tasks}, or stop it with {stop_agent_task}"), 4, `busy; wait for it with "fleet task wait --agent papi", or stop it with "fleet task stop papi"`},
		{statusError(codes.Aborted, "AGENT_BUSY", "busy", nil, "wait for it with {wait_tasks}, or call {no_such_tool}"), 4, `busy; wait for it with "fleet task wait", or call no_such_tool`},
		{statusError(codes.InvalidArgument, "INVALID_NAME", "Bad name.", nil), 2, `Bad name.`},
		{statusError(codes.InvalidArgument, "INVALID_PAGE", "Bad page.", nil), 2, `Bad page.`},
		{statusError(codes.FailedPrecondition, "AGENT_OFFLINE", "offline", agent, "{start_agent} starts it"), 5, `offline; "fleet agent start papi" starts it`},
		{statusError(codes.ResourceExhausted, "LIMIT_REACHED", "Too many.", nil), 5, "Too many."},
		{statusError(codes.Unavailable, "BACKEND_UNAVAILABLE", "Coder does not answer.", nil), 6, "Coder does not answer."},
		{statusError(codes.Unavailable, "PROVISIONING_FAILED", "No disk.", nil), 6, "No disk."},
		{statusError(codes.Unauthenticated, "UNAUTHENTICATED", "Who are you?", nil), 7, `Who are you? Sign in with "fleet login", or give a token with --token-file FILE or FLEET_TOKEN; "fleet token create" makes one`},
		{statusError(codes.PermissionDenied, "PERMISSION_DENIED", "You may not.", nil), 7, "You may not."},
		{statusError(codes.DeadlineExceeded, "DEADLINE_EXCEEDED", "Too slow.", nil), 10, "Too slow."},
		{statusError(codes.Unimplemented, "UNIMPLEMENTED", "Cannot.", nil), 1, "Cannot."},
		{status.Error(codes.Internal, "sql: secret"), 1, "an internal error occurred in Fleet; the server's log has the cause: try again, or ask the operator of the server"},
		{errors.New("of this program"), 1, "of this program"},
		{usagef("bad"), 2, "bad"},
		{endErrorOf("failed"), 8, `the task 1 of papi failed: no; "fleet task show 1" tells more`},
		{endErrorOf("stopped"), 9, `the task 1 of papi was stopped: no; "fleet task show 1" tells more`},
		{context.Canceled, 130, "interrupted; the server may still carry out the request"},
	} {
		t.Run(c.line, func(t *testing.T) {
			t.Parallel()
			f := newProgram(Deps{}).explain(t.Context(), c.err, Target{})
			require.Equal(t, c.code, f.code)
			require.Equal(t, c.line, f.Error())
		})
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		`connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`:                                              `cannot reach h:1: connection refused; is a server running? Start one with "fleet serve", or add --embedded`,
		`connection error: desc = "transport: authentication handshake failed: tls: first record does not look like a TLS handshake"`:                               "cannot reach h:1: first record does not look like a TLS handshake; if that server has no TLS, add --insecure",
		`connection error: desc = "transport: failed to write client preface: write tcp 127.0.0.1:2->127.0.0.1:1: write: broken pipe"`:                              "cannot reach h:1: broken pipe; if the server wants a client certificate, give it with --client-cert and --client-key",
		`connection error: desc = "transport: authentication handshake failed: tls: failed to verify certificate: x509: certificate is valid for a.example, not h"`: "the certificate of h:1 cannot be trusted: certificate is valid for a.example, not h; name the server as in its certificate, or let its operator renew the certificate",
		`connection error: desc = "error reading server preface: remote error: tls: certificate required"`:                                                          "h:1 wants a client certificate; give it with --client-cert and --client-key",
		`connection error: desc = "error reading server preface: http2: frame too large"`:                                                                           "h:1 does not answer as a gRPC server; give the server's gRPC address, which has the port 8102 by default",
	} {
		f := newProgram(Deps{}).explain(t.Context(), status.Error(codes.Unavailable, message), Target{Server: "h:1"})
		require.Equal(t, ExitUnavailable, f.code)
		require.Equal(t, want, f.Error())
	}
	certificateErr := status.Error(codes.Unavailable, `connection error: desc = "error reading server preface: remote error: tls: certificate required"`)
	f := newProgram(Deps{}).explain(t.Context(), certificateErr, Target{Server: "h:1", ClientCert: "mine.pem"})
	require.Equal(t, "h:1 does not accept the certificate in mine.pem; give one of an authority that the server trusts (tls.client_ca)", f.Error())
}

func TestErrorsAreOneLineOrOneObject(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	s.beforeUnary = func(context.Context, string, any) error {
		return statusError(codes.NotFound, "AGENT_NOT_FOUND", "No agent\n'x'\x1b[2J.", map[string]string{"agent_name": "x"})
	}
	server, _ := s.listen(t, "")

	out, line, code := runFleet(server, "agent", "show", "x")
	require.Equal(t, ExitNotFound, code)
	require.Empty(t, out)
	require.Equal(t, "fleet: No agent 'x'[2J.\n", line)

	out, object, code := runFleet(server, "agent", "show", "x", "-o", "json")
	require.Equal(t, ExitNotFound, code)
	require.Empty(t, out)
	var e struct {
		Error, Message string
		Details        map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(object), &e))
	require.Equal(t, "AGENT_NOT_FOUND", e.Error)
	require.Equal(t, map[string]any{"agent_name": "x"}, e.Details)

	_, object, code = runFleet(server, "agent", "show", "-o", "json")
	require.Equal(t, ExitUsage, code)
	require.NoError(t, json.Unmarshal([]byte(object), &e))
	require.Equal(t, "USAGE", e.Error)
}

func TestTimeoutEndsACall(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	s.beforeUnary = func(ctx context.Context, _ string, _ any) error {
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	}
	server, _ := s.listen(t, "")
	_, line, code := runFleet(server, "agent", "list", "--timeout", "50ms")
	require.Equal(t, ExitTimeout, code)
	require.Contains(t, line, "--timeout")
}

func TestDialErrorsAreReported(t *testing.T) {
	t.Parallel()
	c := newCommand("")
	c.dial = func(_ context.Context, target Target) (grpc.ClientConnInterface, func() error, error) {
		require.Equal(t, Target{Server: DefaultServer, Embedded: true, Data: "d"}, target)
		return nil, nil, errors.New("the data directory is in use by a server; leave --embedded out")
	}
	require.Equal(t, ExitError, c.run("agent", "list", "--embedded", "--data", "d"))
	require.Equal(t, "fleet: the data directory is in use by a server; leave --embedded out\n", c.stderr.String())
}

// endErrorOf returns the error for a task that has ended with the status.
func endErrorOf(st string) error {
	return newEndError(&fleetv1.Task{Id: "1", AgentName: "papi", Reason: "no", Status: fleetv1.Task_Status(fleetv1.Task_Status_value[st])})
}
