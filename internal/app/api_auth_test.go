package app

import (
	"context"
	"maps"
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

	cfg := testConfig(t)
	cfg.GRPC = "0.0.0.0:0"
	a, err := Open(t.Context(), cfg, Options{})
	require.NoError(t, err)
	_, err = a.Listen("test")
	require.ErrorContains(t, err, "auth is none")
	require.NoError(t, a.Close())
}

// sourceOfNewTask starts a task with the context's metadata, waits for its end, and returns its source.
func sourceOfNewTask(ctx context.Context, t *testing.T, c fleetv1.FleetServiceClient, agent string) string {
	t.Helper()
	r, err := c.StartAgentTask(ctx, &fleetv1.StartAgentTaskRequest{AgentName: agent, TaskDescription: "done"})
	require.NoError(t, err)
	w, err := c.WaitTasks(ctx, &fleetv1.WaitTasksRequest{TaskIds: []string{r.GetTask().GetId()}})
	require.NoError(t, err)
	require.True(t, w.GetDone())
	return r.GetTask().GetSource().String()
}

// startTaskREST starts a task of papi over REST with the headers, and returns the response body.
func (f *testFleet) startTaskREST(t *testing.T, header map[string]string) string {
	t.Helper()
	_, body := f.send(t, http.MethodPost, f.url("/v1/agents/papi/tasks"), `{"task_description":"done"}`, header)
	return body
}

// forgedHeaders are headers that would change the caller or its face if the server trusted them.
var forgedHeaders = map[string]string{
	"Fleet-Face": "mcp", "Grpc-Metadata-Fleet-Face": "mcp", "Grpcgateway-Fleet-Face": "mcp", "X-Fleet-Face": "mcp",
	"Grpc-Metadata-Authorization": "Bearer forged", "Grpc-Metadata-Fleet-Principal": "root", "X-Forwarded-User": "root",
}

// TestForgedMetadata checks that only the token determines the caller and the source of a task.
func TestForgedMetadata(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"alice": {}, "bot": {Kind: fleet.KindController}}}, step{Agent: "papi", Caller: "alice"}, step{Agent: "robo", Caller: "bot"})
	c := fleetv1.NewFleetServiceClient(f.conn)
	for _, face := range []string{"mcp", "rest", "grpc", "cli", ""} {
		alice := metadata.AppendToOutgoingContext(f.authContext(t.Context(), "alice"), "fleet-face", face)
		require.Equal(t, "human", sourceOfNewTask(alice, t, c, "papi"), face)
		bot := metadata.AppendToOutgoingContext(f.authContext(t.Context(), "bot"), "fleet-face", face)
		require.Equal(t, "ai_controller", sourceOfNewTask(bot, t, c, "robo"), face)
	}
	header := map[string]string{"Authorization": f.authorization("alice")}
	maps.Copy(header, forgedHeaders)
	require.Contains(t, f.startTaskREST(t, header), `"source":"human"`)
	delete(header, "Authorization")
	require.Contains(t, f.startTaskREST(t, header), `"error":"UNAUTHENTICATED"`)

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
	f := newTestFleet(t, fleetConfig{}, step{Agent: "papi"}, step{Agent: "sony"})
	require.Equal(t, "human", sourceOfNewTask(t.Context(), t, fleetv1.NewFleetServiceClient(f.conn), "sony"))
	require.Contains(t, f.startTaskREST(t, forgedHeaders), `"source":"human"`)
	r := f.call(t, "mcp", "start_agent_task", "", map[string]any{"agent_name": "sony", "task_description": "done"})
	require.Nil(t, r.err)
	require.Empty(t, mismatches(map[string]any{"task": map[string]any{"source": "ai_controller"}}, r.answer))
}

// TestOpenToAll checks that health and reflection need no token. TestCredentials checks the other calls.
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
}
