package app

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
)

// TestNoTokensNeedsLoopback checks that a server without tokens listens only on addresses that other machines cannot
// reach.
func TestNoTokensNeedsLoopback(t *testing.T) {
	t.Parallel()
	for addr, loopback := range map[string]bool{
		"127.0.0.1:0": true, "127.8.9.10:0": true, "[::1]:0": true, "localhost:0": true,
		"0.0.0.0:0": false, ":0": false, "[::]:0": false, "0:0": false, "192.168.1.7:0": false, "[fe80::1%25eth0]:0": false,
		"example.com:0": false, "localhost.example.com:0": false, "127.0.0.1.example.com:0": false,
	} {
		for _, key := range []string{"http", "grpc"} {
			cfg := DefaultConfig()
			if key == "http" {
				cfg.HTTP = addr
			} else {
				cfg.GRPC = addr
			}
			if err := cfg.Validate(); loopback {
				require.NoError(t, err, addr)
			} else {
				require.ErrorContains(t, err, key+" is \""+addr+"\", which others can reach, and auth is none", addr)
			}
			cfg.Auth, cfg.InsecurePlaintext = Auth{AuthTokens}, true
			require.NoError(t, cfg.Validate(), addr)
		}
	}

	cfg := DefaultConfig()
	cfg.HTTP, cfg.GRPC, cfg.Data, cfg.Places = "127.0.0.1:0", "0.0.0.0:0", t.TempDir(), []string{"fake"}
	a, err := Open(t.Context(), cfg, Options{})
	require.NoError(t, err)
	_, err = a.Listen("test")
	require.ErrorContains(t, err, "auth is none")
	require.NoError(t, a.Close())
}

// startedBy starts a task with the context's metadata, waits for its end, and returns its source.
func startedBy(ctx context.Context, t *testing.T, c fleetv1.FleetServiceClient, agent string) string {
	t.Helper()
	r, err := c.StartAgentTask(ctx, &fleetv1.StartAgentTaskRequest{AgentName: agent, TaskDescription: "done"})
	require.NoError(t, err)
	w, err := c.WaitTasks(ctx, &fleetv1.WaitTasksRequest{TaskIds: []string{r.GetTask().GetId()}})
	require.NoError(t, err)
	require.True(t, w.GetDone())
	return r.GetTask().GetSource().String()
}

// restStart starts a task over REST with the headers, and returns the response body.
func (f *testFleet) restStart(t *testing.T, header map[string]string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+f.HTTPAddr()+"/v1/agents/papi/tasks", strings.NewReader(`{"task_description":"done"}`))
	require.NoError(t, err)
	for k, v := range header {
		r.Header.Set(k, v)
	}
	resp, err := f.http.Do(r)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(b)
}

// forged are headers that would change the caller or its face if the server trusted them.
var forged = map[string]string{
	"Fleet-Face": "mcp", "Grpc-Metadata-Fleet-Face": "mcp", "Grpcgateway-Fleet-Face": "mcp", "X-Fleet-Face": "mcp",
	"Grpc-Metadata-Authorization": "Bearer forged", "Grpc-Metadata-Fleet-Principal": "root", "X-Forwarded-User": "root",
}

// TestForgedMetadata checks that only the token determines the caller and the source of a task.
func TestForgedMetadata(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"alice": {}, "bot": {Kind: fleet.KindController}}})
	s := &story{testFleet: f, names: map[string]string{}}
	require.NoError(t, s.do(t.Context(), step{Agent: "papi", By: "alice"}))
	require.NoError(t, s.do(t.Context(), step{Agent: "robo", By: "bot"}))
	c := fleetv1.NewFleetServiceClient(f.conn)
	for _, face := range []string{"mcp", "rest", "grpc", "cli", ""} {
		alice := metadata.AppendToOutgoingContext(f.as(t.Context(), "alice"), "fleet-face", face)
		require.Equal(t, "human", startedBy(alice, t, c, "papi"), face)
		bot := metadata.AppendToOutgoingContext(f.as(t.Context(), "bot"), "fleet-face", face)
		require.Equal(t, "ai_controller", startedBy(bot, t, c, "robo"), face)
	}
	header := map[string]string{"Authorization": f.authorization("alice")}
	for k, v := range forged {
		header[k] = v
	}
	require.Contains(t, f.restStart(t, header), `"source":"human"`)
	delete(header, "Authorization")
	require.Contains(t, f.restStart(t, header), `"error":"UNAUTHENTICATED"`)

	for name, values := range map[string][]string{
		"two tokens":       {f.authorization("alice"), f.authorization("bot")},
		"a token and more": {f.authorization("alice") + ", " + f.authorization("bot")},
		"no scheme":        {f.secrets["alice"]},
		"another scheme":   {"Basic " + f.secrets["alice"]},
		"nothing":          {""},
		"a hash":           {"Bearer " + strings.Repeat("a", 64)},
	} {
		ctx := t.Context()
		for _, v := range values {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", v)
		}
		_, err := c.ListAgents(ctx, &fleetv1.ListAgentsRequest{})
		require.Equal(t, codes.Unauthenticated, status.Code(err), name)
		require.NotContains(t, err.Error(), f.secrets["alice"])
	}
}

// TestFacesWithoutTokens checks that on a server without tokens the face determines the source of a task, and that a
// web client cannot forge it.
func TestFacesWithoutTokens(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{})
	s := &story{testFleet: f, names: map[string]string{}}
	require.NoError(t, s.do(t.Context(), step{Agent: "papi"}))
	require.NoError(t, s.do(t.Context(), step{Agent: "sony"}))
	require.Equal(t, "human", startedBy(t.Context(), t, fleetv1.NewFleetServiceClient(f.conn), "sony"))
	require.Contains(t, f.restStart(t, forged), `"source":"human"`)
	r, err := s.callMCP(t.Context(), call{method: methods["start_agent_task"], args: map[string]any{"agent_name": "sony", "task_description": "done"}})
	require.NoError(t, err)
	require.Nil(t, r.err)
	require.Empty(t, mismatches(map[string]any{"task": map[string]any{"source": "ai_controller"}}, r.answer, false))
}

// TestOpenToAll checks that all calls need a token, except health, reflection and the list of tools.
func TestOpenToAll(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"alice": {}}})
	h, err := grpc_health_v1.NewHealthClient(f.conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err)
	require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, h.GetStatus())

	stream, err := grpc_reflection_v1.NewServerReflectionClient(f.conn).ServerReflectionInfo(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.Send(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}}))
	r, err := stream.Recv()
	require.NoError(t, err)
	var services []string
	for _, s := range r.GetListServicesResponse().GetService() {
		services = append(services, s.GetName())
	}
	require.Subset(t, services, []string{"fleet.v1.FleetService", "fleet.v1.TokenService", "grpc.health.v1.Health"})

	for name, m := range methods {
		for face := range faces {
			if !offers(face, m) || face == "sse" && !m.IsStreamingServer() || name == "check_health" || name == "show_server" { // all callers may call these
				continue
			}
			args := map[string]any{}
			for i := range m.Input().Fields().Len() { // the path requires these fields
				if f := string(m.Input().Fields().Get(i).Name()); f == "agent_name" || f == "task_id" || f == "question_id" || f == "name" || f == "project" || f == "agent_id" || f == "agent_session_id" {
					args[f] = "x"
				}
			}
			r, err := faces[face](f, t.Context(), call{method: m, args: args})
			require.NoError(t, err, "%s on %s", name, face)
			require.NotNil(t, r.err, "%s on %s", name, face)
			require.Equal(t, "UNAUTHENTICATED", r.err.Reason, "%s on %s: %s", name, face, r.err)
			if r.header != nil {
				require.Equal(t, `Bearer realm="fleet"`, r.header.Get("WWW-Authenticate"), name)
			}
		}
	}
}
