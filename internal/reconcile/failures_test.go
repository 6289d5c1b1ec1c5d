package reconcile_test

import (
	"context"
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

// TestHostThatTakesNoTasks hands a task to an agent that cannot be reached: again and again, but not all the time.
func TestHostThatTakesNoTasks(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	h.Create("papi")
	h.World.Fail(fake.Dispatch, 1<<30, nil)
	begun := time.Now()
	task := h.Start("papi", "done")
	<-h.World.Called(fake.Dispatch, 2)
	require.Greater(t, time.Since(begun), 400*time.Millisecond)
	h.World.Fail(fake.Dispatch, 0, nil)
	require.Equal(t, fleet.TaskCompleted, h.End(task.ID).Status)
	require.Equal(t, 1, h.World.Deliveries(task.ID))
}

// TestOneUnreachableAgent has an agent whose runs cannot be followed: that is no reason to refuse what others want.
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
	<-h.World.Called(fake.Follow, 2)
	h.Create("good")
	require.Equal(t, fleet.TaskCompleted, h.End(h.Start("good", "done").ID).Status)
}

// TestHungWorkspaces has as many workspaces being made as are made at a time, for ever: tasks are begun and stopped all
// the same, and what hangs is tried again.
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
	}}, func(c *state.Config) {
		c.Workers, c.CreateWait, c.OpTimeout = 2, 20*time.Second, time.Second
	})
	h.Create("good")
	bad := make(chan error, 2)
	for _, name := range []string{"bad1", "bad2"} {
		go func() {
			_, _, err := h.CreateAgent(h.Context(), service.CreateAgentRequest{Name: name, Project: "Setup", Spec: "s"})
			bad <- err
		}()
	}
	<-hung
	<-hung
	task := h.Start("good", "wait gate")
	<-h.World.Reached("gate")
	stopped, _, _, err := h.StopTask(h.Context(), "good", "")
	require.NoError(t, err)
	require.Equal(t, task.ID, stopped.ID)
	healed.Store(true)
	require.NoError(t, <-bad)
	require.NoError(t, <-bad)
}

// TestOneAgentThatCannotBeSeen has a workspace that is gone and cannot be looked at, and others that are gone too.
func TestOneAgentThatCannotBeSeen(t *testing.T) {
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
			}}, func(c *state.Config) { c.CallTimeout = 200 * time.Millisecond })
			h.Create("a-bad")
			h.Create("gone")
			h.Create("stopped")
			armed.Store(true)
			h.World.DeleteWorkspace("a-bad")
			h.World.DeleteWorkspace("gone")
			h.World.StopWorkspace("stopped")
			h.Until("stopped", func(v *fleet.AgentView) bool { return v.State == fleet.StateStopped })
			h.Stored(func() bool {
				_, err := h.ShowAgent(h.Context(), "gone")
				return fleet.ReasonOf(err) == fleet.ReasonAgentNotFound
			})
			_, err := h.ShowAgent(h.Context(), "a-bad")
			require.NoError(t, err)
			require.Len(t, h.Events(fleet.EventAgentDeleted), 1)
		})
	}
}

// TestRunThatCannotBeInterrupted stops tasks of agents that cannot be reached: the stop goes on to stronger means, is
// told of once a step, and ends with the workspace when that is to stop.
func TestRunThatCannotBeInterrupted(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{Before: func(_ context.Context, c fake.Call) error {
		if c.Method == fake.Interrupt || c.Method == fake.Follow {
			return fleet.Errorf(fleet.ReasonBackendUnavailable, "the agent does not answer")
		}
		return nil
	}}, nil)
	h.Create("papi")
	task := h.Start("papi", "wait gate")
	<-h.World.Reached("gate")
	v, _, err := h.StopAgent(h.Context(), "papi", "")
	require.NoError(t, err)
	require.Equal(t, fleet.StateStopped, v.State)
	ended := h.End(task.ID)
	require.Equal(t, fleet.TaskStopped, ended.Status)
	require.LessOrEqual(t, len(h.Events(fleet.EventTaskStopping)), 4)
}

// TestRestartWhileBeingMade asks for another role while the workspace is made in the first one.
func TestRestartWhileBeingMade(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	gate := h.World.HoldAfter(fake.Provision)
	created := make(chan error, 1)
	go func() {
		_, _, err := h.CreateAgent(h.Context(), service.CreateAgentRequest{Name: "papi", Project: "Setup", Spec: "x"})
		created <- err
	}()
	<-gate.Arrived()
	restarted := make(chan error, 1)
	go func() {
		_, _, err := h.RestartAgent(h.Context(), "papi", "manager", "")
		restarted <- err
	}()
	h.Until("papi", func(v *fleet.AgentView) bool { return v.Role == "manager" })
	gate.Open()
	require.NoError(t, <-restarted)
	require.NoError(t, <-created)
	ws, _ := h.World.Workspace("papi")
	require.Equal(t, "manager", ws.Role)
}

// TestStartedBehindTheBack starts a workspace at its host that Fleet was asked to stop: it is not stopped again.
func TestStartedBehindTheBack(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	h.Create("papi")
	_, _, err := h.StopAgent(h.Context(), "papi", "")
	require.NoError(t, err)
	stops := h.World.Calls(fake.Stop)
	h.World.StartWorkspace("papi")
	h.Until("papi", func(v *fleet.AgentView) bool { return v.Status() == fleet.StatusIdle })
	require.Equal(t, fleet.TaskCompleted, h.End(h.Start("papi", "done").ID).Status)
	require.Equal(t, stops, h.World.Calls(fake.Stop))
}

// TestStoppedBeforeItWasMade stops an agent whose workspace is being made: what was made of it stops too.
func TestStoppedBeforeItWasMade(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	gate := h.World.HoldAfter(fake.Provision)
	go func() {
		_, _, _ = h.CreateAgent(h.Context(), service.CreateAgentRequest{Name: "papi", Project: "Setup", Spec: "x"})
	}()
	<-gate.Arrived()
	_, _, err := h.StopAgent(h.Context(), "papi", "")
	require.NoError(t, err)
	h.Until("papi", func(v *fleet.AgentView) bool { return v.State == fleet.StateStopped && v.WorkspaceID != "" })
	ws, ok := h.World.Workspace("papi")
	require.True(t, ok)
	require.Equal(t, fleet.StateStopped, ws.State)
}

// TestDeadlineOfATaskThatWaits has a task that was never handed over, since its agent is unhealthy: it ends in time.
func TestDeadlineOfATaskThatWaits(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	v := h.Create("papi")
	h.Reconciler.Stop()
	task, err := h.StartTask(h.Context(), service.StartTaskRequest{Agent: "papi", Description: "done", Timeout: time.Second})
	require.NoError(t, err)
	h.World.MakeUnhealthy("papi", "no answer")
	require.NoError(t, h.Store.Update(t.Context(), func(tx fleet.Tx) error {
		a, err := tx.Agent(v.UID)
		require.NoError(t, err)
		a.State, a.StateReason = fleet.StateUnhealthy, "no answer"
		require.NoError(t, tx.UpdateAgent(a))
		return tx.Append(&fleet.Event{Time: time.Now(), Type: fleet.EventAgentChanged, AgentUID: a.UID, AgentName: a.Name, Owner: a.Owner})
	}))
	h.Config.Now = func() time.Time { return time.Now().Add(time.Hour) }
	h.Restart()
	ended := h.End(task.ID)
	require.Equal(t, fleet.TaskFailed, ended.Status)
	require.Contains(t, ended.Reason, "limit of 1s")
	require.Zero(t, h.World.Deliveries(task.ID))
}

// TestHostThatCancels has a backend that says canceled of itself: an error like any other.
func TestHostThatCancels(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	h.World.Fail(fake.Provision, 1, context.Canceled)
	_, _, err := h.CreateAgent(h.Context(), service.CreateAgentRequest{Name: "papi", Project: "Setup", Spec: "x"})
	require.Equal(t, fleet.ReasonProvisioningFailed, fleet.ReasonOf(err))
	require.Equal(t, 1, h.World.Calls(fake.Provision))
}
