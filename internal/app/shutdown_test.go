package app

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/state"
	"fleet/internal/waittest"
)

// serveFake serves a fleet with the options until ctx ends, and then sends the result. prepare changes the server before that;
// it may be nil.
func serveFake(ctx context.Context, t *testing.T, o Options, prepare func(*Server)) (*Server, <-chan error) {
	t.Helper()
	cfg := DefaultConfig()
	cfg.HTTP, cfg.GRPC, cfg.Data, cfg.Places = "127.0.0.1:0", "127.0.0.1:0", t.TempDir(), []string{"fake"}
	a, err := Open(t.Context(), cfg, o)
	require.NoError(t, err)
	s, err := a.Listen("test")
	require.NoError(t, err)
	if prepare != nil {
		prepare(s)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	return s, ended
}

// TestShutdownWithBlockedReaders shuts a server down while its streams are full because their clients do not read.
func TestShutdownWithBlockedReaders(t *testing.T) {
	t.Parallel()
	world := fake.New(fake.Config{})
	defer world.Destroy()
	ctx, stop := context.WithCancel(t.Context())
	s, ended := serveFake(ctx, t, Options{Places: []fleet.Place{world}, Core: func(c *state.Config) { c.PollInterval = 20 * time.Millisecond }}, nil)

	conn, err := grpc.NewClient(s.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	client := fleetv1.NewFleetServiceClient(conn)
	_, err = client.CreateAgent(t.Context(), &fleetv1.CreateAgentRequest{Name: "papi", Project: "Setup", Spec: "s"})
	require.NoError(t, err)
	stream, err := client.WatchFleet(t.Context(), &fleetv1.WatchFleetRequest{Follow: true})
	require.NoError(t, err)
	_, err = stream.Recv() // the stream is open; from now on, the test does not read it
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.HTTPAddr()+"/v1/events?follow=true", nil)
	require.NoError(t, err)
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = io.ReadFull(resp.Body, make([]byte, 1))
	require.NoError(t, err)

	task, err := client.StartAgentTask(t.Context(), &fleetv1.StartAgentTaskRequest{
		AgentName: "papi", TaskDescription: "repeat 3000 " + strings.Repeat("long ", 1000) + "\ndone",
	})
	require.NoError(t, err)
	waited, err := client.WaitTasks(t.Context(), &fleetv1.WaitTasksRequest{TaskIds: []string{task.GetTask().GetId()}})
	require.NoError(t, err)
	require.True(t, waited.GetDone(), "blocked readers must not slow down the task")

	stop()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(waittest.Limit):
		require.Fail(t, "the server does not end")
	}
}

// TestShutdownWithHangingPlace shuts a server down while a call of its place hangs.
func TestShutdownWithHangingPlace(t *testing.T) {
	t.Parallel()
	hangs, free := make(chan struct{}), make(chan struct{})
	var once sync.Once
	world := fake.New(fake.Config{Before: func(_ context.Context, c fake.Call) error {
		if c.Method == "Provision" {
			once.Do(func() { close(hangs) })
			<-free
		}
		return nil
	}})
	ctx, stop := context.WithCancel(t.Context())
	s, ended := serveFake(ctx, t, Options{Places: []fleet.Place{world}}, func(s *Server) { s.closeGrace = 100 * time.Millisecond })
	t.Cleanup(func() {
		close(free)
		<-s.closed
		world.Destroy()
	})

	conn, err := grpc.NewClient(s.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	go func() {
		_, _ = fleetv1.NewFleetServiceClient(conn).CreateAgent(ctx, &fleetv1.CreateAgentRequest{Name: "papi", Project: "Setup", Spec: "s"})
	}()
	<-hangs
	stop()
	select {
	case err := <-ended:
		require.ErrorContains(t, err, "did not end within 100ms")
	case <-time.After(waittest.Limit):
		require.Fail(t, "the server does not end")
	}
}
