package browser

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/app"
	"fleet/internal/fleet"
	"fleet/internal/loopback/loopbacktest"
	"fleet/internal/place/local"
	"fleet/internal/runner/driver"
	"fleet/internal/state"
	"fleet/internal/store/sqlite/sqlitetest"
	"fleet/internal/waittest"
)

// server is a fleet server in this process. Its agents run on this machine, unless places says otherwise.
type server struct {
	cfg        app.Config
	heartbeat  time.Duration // the longest silence of an event stream; 0: the default
	places     []fleet.Place // if empty, the agents run on this machine
	home       string        // URL of the page
	api        fleetv1.FleetServiceClient
	stop       func()
	clockDelay atomic.Int64 // a time.Duration: how far the server's clock is behind
}

// serve starts a server whose project "shell" runs tasks as shell scripts. Its agents may ask for permissions.
func serve(t *testing.T, change func(*app.Config)) *server {
	t.Helper()
	return serveWithHeartbeat(t, 0, change)
}

// serveWithHeartbeat is serve with a limit on how long an event stream may be silent; 0: the default.
func serveWithHeartbeat(t *testing.T, heartbeat time.Duration, change func(*app.Config)) *server {
	t.Helper()
	s := &server{heartbeat: heartbeat}
	s.configureAndStart(t, change)
	return s
}

// configureAndStart starts the server with a new configuration and an empty store. It stops the server at the end of the test.
func (s *server) configureAndStart(t *testing.T, change func(*app.Config)) {
	t.Helper()
	cfg := app.DefaultConfig()
	cfg.HTTP, cfg.GRPC, cfg.Data, cfg.StopGrace = "127.0.0.1:0", "127.0.0.1:0", t.TempDir(), 500*time.Millisecond
	require.NoError(t, sqlitetest.Create(filepath.Join(cfg.Data, "fleet.db")))
	cfg.Local.PassEnv = []string{"GORACE"} // lets shims end at once, also under the race detector
	cfg.Local.Projects = []local.Project{{Name: "shell", Roles: []local.Role{{Name: "coder", Permissions: &driver.Permissions{
		Allow: []string{"Bash(ls *)"},
	}}}}}
	if change != nil {
		change(&cfg)
	}
	s.cfg = cfg
	s.start(t)
	t.Cleanup(func() { s.stop() })
}

// useFixedAddresses sets addresses that no other program takes while the server is down. It is for serve, and for servers that a
// test starts again.
func useFixedAddresses(t *testing.T) func(*app.Config) {
	t.Helper()
	return func(cfg *app.Config) { cfg.HTTP, cfg.GRPC = loopbacktest.Address(t), loopbacktest.Address(t) }
}

// start starts the server, or restarts it with the same data and addresses.
func (s *server) start(t *testing.T) {
	t.Helper()
	loopbacktest.WaitUntilFree(t, s.cfg.HTTP)
	loopbacktest.WaitUntilFree(t, s.cfg.GRPC)
	a, err := app.Open(context.Background(), s.cfg, app.Options{Heartbeat: s.heartbeat, CloseGrace: waittest.Limit, Places: s.places, Core: func(c *state.Config) {
		c.Now = func() time.Time { return time.Now().Add(-time.Duration(s.clockDelay.Load())) }
	}})
	require.NoError(t, err)
	l, err := a.Listen("test")
	require.NoError(t, err)
	s.cfg.HTTP, s.cfg.GRPC = l.HTTPAddr(), l.GRPCAddr()
	s.home = "http://" + l.HTTPAddr()
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- l.Serve(ctx) }()
	conn, err := grpc.NewClient(l.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	s.api = fleetv1.NewFleetServiceClient(conn)
	s.stop = func() {
		require.NoError(t, conn.Close())
		stop()
		require.NoError(t, <-served)
		s.stop = func() {}
	}
}

func (s *server) createAgent(t *testing.T, name string) {
	t.Helper()
	s.createAgentWith(t, name, "shell", "", "Try things")
}

func (s *server) createAgentWith(t *testing.T, name, project, role, spec string) {
	t.Helper()
	_, err := s.api.CreateAgent(t.Context(), &fleetv1.CreateAgentRequest{Name: name, Project: project, Role: role, Spec: spec})
	require.NoError(t, err)
}

// createPapiAs is createAgentAs for an agent papi.
func (s *server) createPapiAs(t *testing.T, token string) context.Context {
	t.Helper()
	return s.createAgentAs(t, token, "papi", "Try things")
}

// createAgentAs creates an agent as the holder of the token, and returns a context for other calls of the holder.
func (s *server) createAgentAs(t *testing.T, token, name, spec string) context.Context {
	t.Helper()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
	_, err := s.api.CreateAgent(ctx, &fleetv1.CreateAgentRequest{Name: name, Project: "shell", Spec: spec})
	require.NoError(t, err)
	return ctx
}

func (s *server) startTask(t *testing.T, agent, script string) string {
	t.Helper()
	return s.startTaskAs(t.Context(), t, agent, script)
}

// startTaskAs starts a task as the caller of the context, and returns its id. The task is stopped at the end of the test,
// because it would outlive the server.
func (s *server) startTaskAs(ctx context.Context, t *testing.T, agent, script string) string {
	t.Helper()
	r, err := s.api.StartAgentTask(ctx, &fleetv1.StartAgentTaskRequest{AgentName: agent, TaskDescription: script})
	require.NoError(t, err)
	t.Cleanup(func() {
		_, _ = s.api.StopAgentTask(context.WithoutCancel(ctx), &fleetv1.StopAgentTaskRequest{AgentName: agent}) // fails if the task has ended
	})
	return r.GetTask().GetId()
}

// createFile creates an empty file in the directory of the agent.
func (s *server) createFile(t *testing.T, agent, name string) {
	t.Helper()
	r, err := s.api.ShowAgent(t.Context(), &fleetv1.ShowAgentRequest{AgentName: agent})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(r.GetAgent().GetLocation(), name), nil, 0o600))
}

func (s *server) waitForEnd(t *testing.T, id string) {
	t.Helper()
	s.waitForEndAs(t.Context(), t, id)
}

func (s *server) waitForEndAs(ctx context.Context, t *testing.T, id string) {
	t.Helper()
	for {
		r, err := s.api.WaitTasks(ctx, &fleetv1.WaitTasksRequest{TaskIds: []string{id}})
		require.NoError(t, err)
		if r.GetDone() {
			return
		}
	}
}
