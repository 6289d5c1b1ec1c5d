package fake_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
)

var papi = fleet.Agent{UID: "uid-papi", Name: "papi", Owner: "alice", Project: "Setup", Role: "coder", Spec: "Fix things."}

// TestFaults checks the faults that tests can cause. It also checks that Overlaps finds calls that overlap, because many tests
// expect none.
func TestFaults(t *testing.T) {
	t.Parallel()
	p := fake.New(fake.Config{})
	t.Cleanup(p.Destroy)
	p.Fail(fake.Provision, 1, nil)
	_, err := p.Provision(t.Context(), papi)
	require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(err))
	require.Empty(t, p.Workspaces())

	lost := errors.New("lost")
	p.FailAfter(fake.Provision, 1, lost)
	_, err = p.Provision(t.Context(), papi)
	require.ErrorIs(t, err, lost)
	require.Len(t, p.Workspaces(), 1)
	_, err = p.Provision(t.Context(), papi)
	require.NoError(t, err)
	require.Len(t, p.Workspaces(), 1)
	require.Equal(t, 3, p.Calls(fake.Provision))

	// The server crashes after the dispatch, before it receives the result.
	ctx, die := context.WithCancel(t.Context())
	gate := p.HoldAfter(fake.Dispatch)
	errs := make(chan error)
	r := fleet.Run{TaskID: "task-1", Prompt: "wait door", Timeout: time.Hour}
	go func() { errs <- p.Connect(papi).Dispatch(ctx, r) }()
	<-gate.Arrived()
	require.Equal(t, 1, p.RunCount(r.TaskID))
	require.ErrorContains(t, p.Stop(t.Context(), fleet.Agent{UID: "nobody", Name: "nobody"}), "is gone")
	require.Empty(t, p.Overlaps())
	require.NoError(t, p.Stop(t.Context(), papi))
	require.Equal(t, []string{"Stop of agent papi during Dispatch"}, p.Overlaps())
	die()
	require.ErrorIs(t, <-errs, context.Canceled)
	gate.Open()
	require.NoError(t, p.Connect(papi).Dispatch(t.Context(), r))
	require.Equal(t, 1, p.RunCount(r.TaskID))
	require.Equal(t, 2, p.DispatchCount(r.TaskID))

	// The server crashes before the call has an effect.
	ctx, die = context.WithCancel(t.Context())
	gate = p.Hold(fake.Start)
	go func() { errs <- p.Start(ctx, papi) }()
	<-gate.Arrived()
	die()
	require.ErrorIs(t, <-errs, context.Canceled)
	w, _ := p.Workspace("papi")
	require.Equal(t, fleet.StateStopped, w.State)
}
