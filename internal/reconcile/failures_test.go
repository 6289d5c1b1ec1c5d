package reconcile_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// TestHostThatAcceptsNoTasks checks that the dispatch of a task to an unreachable agent is retried with pauses, until it
// succeeds.
func TestHostThatAcceptsNoTasks(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{}, nil)
	h.FakePlace.Fail(fake.Dispatch, 1<<30, nil)
	start := time.Now()
	task := h.Start("papi", "done")
	<-h.FakePlace.Called(fake.Dispatch, 2)
	require.Greater(t, time.Since(start), 400*time.Millisecond)
	h.FakePlace.Fail(fake.Dispatch, 0, nil)
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(task.ID).Status)
	require.Equal(t, 1, h.FakePlace.RunCount(task.ID))
}

// TestOneUnreachableAgent checks that other agents work while the runs of one agent cannot be followed.
func TestOneUnreachableAgent(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{Before: func(_ context.Context, c fake.Call) error {
		if c.Method == fake.Follow && c.Agent.Name == "bad" {
			return fleet.Errorf(fleet.ReasonBackendUnavailable, "the agent does not answer")
		}
		return nil
	}}, func(c *state.Config) { c.PollInterval = time.Hour })
	h.Create("bad")
	h.Start("bad", "done")
	<-h.FakePlace.Called(fake.Follow, 2)
	h.Create("good")
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(h.Start("good", "done").ID).Status)
}

// TestHungWorkspaces lets as many calls of Provision hang as may run at the same time. It checks that tasks of another
// agent still start and stop, and that Provision is retried after its time limit.
func TestHungWorkspaces(t *testing.T) {
	t.Parallel()
	hung := make(chan struct{}, 100)
	var healed atomic.Bool
	h := servicetest.New(t, fake.Config{Before: func(ctx context.Context, c fake.Call) error {
		if c.Method == fake.Provision && strings.HasPrefix(c.Agent.Name, "bad") && !healed.Load() {
			hung <- struct{}{}
			return servicetest.Hang(ctx)
		}
		return nil
	}}, func(c *state.Config) { c.Workers, c.OpTimeout = 2, time.Second })
	h.Create("good")
	creations := make(chan error, 2)
	for _, name := range []string{"bad1", "bad2"} {
		go func() {
			_, _, err := h.CreateAgent(h.Context(), service.CreateAgentRequest{Name: name, Project: "Setup", Spec: "s"})
			creations <- err
		}()
	}
	<-hung
	<-hung
	task := h.Start("good", "wait gate")
	<-h.FakePlace.Reached("gate")
	stopped, _, _, err := h.StopTask(h.Context(), "good", "")
	require.NoError(t, err)
	require.Equal(t, task.ID, stopped.ID)
	healed.Store(true)
	require.NoError(t, <-creations)
	require.NoError(t, <-creations)
}

// TestWorkspaceThatCannotBeInspected deletes a workspace for which Inspect fails or hangs. It checks that the agent
// stays, and that changes to other workspaces are still noticed.
func TestWorkspaceThatCannotBeInspected(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]func(context.Context) error{
		"fails": func(context.Context) error { return fleet.Errorf(fleet.ReasonInternal, "no") },
		"hangs": servicetest.Hang,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var armed atomic.Bool
			h := servicetest.New(t, fake.Config{Before: func(ctx context.Context, c fake.Call) error {
				if c.Method == fake.Inspect && c.Agent.Name == "a-bad" && armed.Load() {
					return fails(ctx)
				}
				return nil
			}}, nil)
			h.Create("a-bad")
			h.Create("gone")
			h.Create("stopped")
			h.Config.CallTimeout = 200 * time.Millisecond
			h.Restart()
			armed.Store(true)
			h.FakePlace.DeleteWorkspace("a-bad")
			h.FakePlace.DeleteWorkspace("gone")
			h.FakePlace.StopWorkspace("stopped")
			h.WaitAgent("stopped", func(v *fleet.AgentView) bool { return v.State == fleet.StateStopped })
			h.WaitStored(func() bool {
				_, err := h.ShowAgent(h.Context(), "gone")
				return fleet.ReasonOf(err) == fleet.ReasonAgentNotFound
			})
			_, err := h.ShowAgent(h.Context(), "a-bad")
			require.NoError(t, err)
			require.Len(t, h.Events(fleet.EventAgentDeleted), 1)
		})
	}
}

// TestRunThatCannotBeInterrupted stops an agent that cannot be reached while its task runs. It checks that the task stops
// with the workspace, and that the attempts to interrupt the run add at most four events.
func TestRunThatCannotBeInterrupted(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{Before: func(_ context.Context, c fake.Call) error {
		if c.Method == fake.Interrupt || c.Method == fake.Follow {
			return fleet.Errorf(fleet.ReasonBackendUnavailable, "the agent does not answer")
		}
		return nil
	}}, nil)
	task := h.Start("papi", "wait gate")
	<-h.FakePlace.Reached("gate")
	v, _, err := h.StopAgent(h.Context(), "papi", "")
	require.NoError(t, err)
	require.Equal(t, fleet.StateStopped, v.State)
	ended := h.WaitTask(task.ID)
	require.Equal(t, fleet.TaskStopped, ended.Status)
	require.LessOrEqual(t, len(h.Events(fleet.EventTaskStopping)), 4)
}

// TestRestartDuringProvision restarts an agent in another role while its workspace is still being created in the first
// role. It checks that the workspace ends up with the new role.
func TestRestartDuringProvision(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	gate := h.FakePlace.HoldAfter(fake.Provision)
	created := startCall(func() error { _, err := h.CreateIn("papi", "Setup"); return err })
	<-gate.Arrived()
	restarted := startCall(func() error {
		_, _, err := h.RestartAgent(h.Context(), service.RestartAgentRequest{Agent: "papi", Role: "manager"})
		return err
	})
	h.WaitAgent("papi", func(v *fleet.AgentView) bool { return v.Role == "manager" })
	gate.Open()
	require.NoError(t, <-restarted)
	require.NoError(t, <-created)
	ws, _ := h.FakePlace.Workspace("papi")
	require.Equal(t, "manager", ws.Role)
}

// TestStartedOutsideFleet checks that Fleet does not stop a workspace again after somebody has started it at its host.
func TestStartedOutsideFleet(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{}, nil)
	h.MustStop("papi")
	stops := h.FakePlace.Calls(fake.Stop)
	h.FakePlace.StartWorkspace("papi")
	h.WaitAgent("papi", func(v *fleet.AgentView) bool { return v.Status() == fleet.StatusIdle })
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(h.Start("papi", "done").ID).Status)
	require.Equal(t, stops, h.FakePlace.Calls(fake.Stop))
}

// TestStopDuringProvision stops an agent while its workspace is being created. It checks that the workspace is
// stopped once it exists.
func TestStopDuringProvision(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	gate := h.FakePlace.HoldAfter(fake.Provision)
	go func() {
		_, _, _ = h.CreateAgent(h.Context(), service.CreateAgentRequest{Name: "papi", Project: "Setup", Spec: "x"})
	}()
	<-gate.Arrived()
	h.MustStop("papi")
	h.WaitAgent("papi", func(v *fleet.AgentView) bool { return v.State == fleet.StateStopped && v.WorkspaceID != "" })
	ws, ok := h.FakePlace.Workspace("papi")
	require.True(t, ok)
	require.Equal(t, fleet.StateStopped, ws.State)
}

// TestDeadlineOfATaskThatWaits checks that a task fails at its time limit, even if it was never dispatched because its
// agent is unhealthy.
func TestDeadlineOfATaskThatWaits(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	v := h.Create("papi")
	h.Reconciler.Stop()
	task, err := h.StartTask(h.Context(), service.StartTaskRequest{Agent: "papi", Description: "done", Timeout: time.Second})
	require.NoError(t, err)
	h.FakePlace.MakeUnhealthy("papi", "no answer")
	require.NoError(t, h.Store.Update(t.Context(), func(tx fleet.Tx) error {
		a, err := tx.Agent(v.UID)
		require.NoError(t, err)
		a.State, a.StateReason = fleet.StateUnhealthy, "no answer"
		require.NoError(t, tx.Update(a))
		return tx.Append(&fleet.Event{Time: time.Now(), Type: fleet.EventAgentChanged, AgentUID: a.UID, AgentName: a.Name, Owner: a.Owner})
	}))
	h.Config.Now = func() time.Time { return time.Now().Add(time.Hour) }
	h.Restart()
	ended := h.WaitTask(task.ID)
	require.Equal(t, fleet.TaskFailed, ended.Status)
	require.Contains(t, ended.Reason, "limit of 1s")
	require.Zero(t, h.FakePlace.RunCount(task.ID))
}

// TestHostThatCancels checks that context.Canceled, returned by a host although nobody has canceled the call, is handled
// as an ordinary error.
func TestHostThatCancels(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	h.FakePlace.Fail(fake.Provision, 1, context.Canceled)
	_, _, err := h.CreateAgent(h.Context(), service.CreateAgentRequest{Name: "papi", Project: "Setup", Spec: "x"})
	require.Equal(t, fleet.ReasonProvisioningFailed, fleet.ReasonOf(err))
	require.Equal(t, 1, h.FakePlace.Calls(fake.Provision))
}

// TestBrokenAgentDoesNotAffectOthers checks that an error of one agent's workspace does not count as a problem of its place: other
// agents can be created, and the place does not report the error.
func TestBrokenAgentDoesNotAffectOthers(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{Before: func(_ context.Context, c fake.Call) error {
		if c.Method == fake.Delete && c.Agent.Name == "bad" {
			return fleet.Errorf(fleet.ReasonBackendUnavailable, "cannot remove the agent's directory: its files are broken")
		}
		return nil
	}}, func(c *state.Config) { c.PollInterval = time.Hour })
	h.Create("bad")
	_, _, err := h.DeleteAgent(h.Context(), "bad", false, "")
	require.ErrorContains(t, err, "its files are broken", "the owner sees it")
	for i := range 3 {
		h.Create(fmt.Sprintf("good-%d", i))
	}
	require.Empty(t, h.Problem(0))
}

// TestFollowFailsDuringAStop checks that Follow is retried with pauses if it fails, even while the run is being stopped.
func TestFollowFailsDuringAStop(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{}, nil)
	h.FakePlace.Fail(fake.Follow, 1<<30, nil)
	task := h.Start("papi", "wait here")
	<-h.FakePlace.Called(fake.Follow, 2)
	start, calls := time.Now(), h.FakePlace.Calls(fake.Follow)
	stopped := startCall(func() error { _, _, _, err := h.StopTask(h.Context(), "papi", ""); return err })
	<-h.FakePlace.Called(fake.Follow, calls+3) // one call may be under way, and the stop causes one at once
	require.GreaterOrEqual(t, time.Since(start), 500*time.Millisecond)
	h.FakePlace.Fail(fake.Follow, 0, nil)
	require.NoError(t, <-stopped)
	ended, err := h.FollowTask(h.Context(), task.ID, 0, func(fleet.Event) error { return nil })
	require.NoError(t, err)
	require.Equal(t, fleet.TaskStopped, ended.Status)
}
