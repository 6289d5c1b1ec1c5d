package app

import (
	"context"
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
	"fleet/internal/waittest"
)

// TestShutdownWithBlockedReaders shuts a server down while its streams are full because their clients do not read. The
// server must end without an error.
func TestShutdownWithBlockedReaders(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{Options: func(o *Options) { o.UnreadTimeout = 0 }}, step{Agent: "papi"}) // the default
	client := fleetv1.NewFleetServiceClient(f.conn)
	stream, err := client.WatchFleet(t.Context(), &fleetv1.WatchFleetRequest{Follow: true})
	require.NoError(t, err)
	_, err = stream.Recv() // the stream is open; from now on, the test does not read it
	require.NoError(t, err)
	f.openStream(t, "/v1/events?follow=true", "text/event-stream")

	task, err := client.StartAgentTask(t.Context(), &fleetv1.StartAgentTaskRequest{
		AgentName: "papi", TaskDescription: "repeat 3000 " + strings.Repeat("long ", 1000) + "\ndone",
	})
	require.NoError(t, err)
	for done := false; !done; { // blocked readers must not stop the task
		waited, err := client.WaitTasks(t.Context(), &fleetv1.WaitTasksRequest{TaskIds: []string{task.GetTask().GetId()}})
		require.NoError(t, err)
		done = waited.GetDone()
	}
	require.NoError(t, f.stop())
}

// shutDownDuringCall serves the fleet, makes a call, and shuts the server down when hangs is closed. It requires that the server ends
// with an error although the call hangs.
func shutDownDuringCall(t *testing.T, a *App, hangs <-chan struct{}) *Server {
	t.Helper()
	s, err := a.Listen("test")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
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
		require.Fail(t, "the server did not end")
	}
	return s
}

// TestShutdownWithHangingCall shuts a server down while a call ignores its context. The server must end with an error.
func TestShutdownWithHangingCall(t *testing.T) {
	t.Parallel()
	a, err := Open(t.Context(), testConfig(t), Options{CloseGrace: 100 * time.Millisecond})
	require.NoError(t, err)
	hangs, free := make(chan struct{}), make(chan struct{})
	a.guard.nextUnary = func(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) {
		close(hangs)
		<-free
		return nil, context.Canceled
	}
	s := shutDownDuringCall(t, a, hangs)
	close(free)
	require.NoError(t, <-s.closed, "the fleet must close when the call has ended")
}

// TestShutdownWithHangingPlace shuts a server down while a call of its place hangs. The server must end with an error.
func TestShutdownWithHangingPlace(t *testing.T) {
	t.Parallel()
	hangs, free := make(chan struct{}), make(chan struct{})
	var once sync.Once
	place := fake.New(fake.Config{Before: func(_ context.Context, c fake.Call) error {
		if c.Method == "Provision" {
			once.Do(func() { close(hangs) })
			<-free
		}
		return nil
	}})
	a, err := Open(t.Context(), testConfig(t), Options{Places: []fleet.Place{place}, CloseGrace: 100 * time.Millisecond})
	require.NoError(t, err)
	s := shutDownDuringCall(t, a, hangs)
	close(free)
	<-s.closed
	place.Destroy()
}
