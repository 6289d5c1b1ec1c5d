package service_test

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
	"fleet/internal/state"
)

// hang waits until the call is given up.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// events counts the events of the type.
func (h *harness) events(typ fleet.EventType) (texts []string) {
	h.t.Helper()
	err := h.Watch(asAdmin(h.t.Context()), service.WatchRequest{MaxEvents: service.MaxWatchEvents}, func(events []fleet.Event, _ string) error {
		for _, e := range events {
			if e.Type == typ {
				texts = append(texts, e.Text)
			}
		}
		return nil
	})
	require.NoError(h.t, err)
	return texts
}

// TestHostThatTakesNoTasks hands a task to an agent that cannot be reached: again and again, but not all the time.
func TestHostThatTakesNoTasks(t *testing.T) {
	t.Parallel()
	h := newHarness(t, fake.Config{}, nil)
	h.create("papi")
	h.world.Fail(fake.Dispatch, 1<<30, nil)
	begun := time.Now()
	task := h.start("papi", "done")
	<-h.world.Called(fake.Dispatch, 2)
	require.Greater(t, time.Since(begun), 400*time.Millisecond)
	h.world.Fail(fake.Dispatch, 0, nil)
	require.Equal(t, fleet.TaskCompleted, h.end(task.ID).Status)
	require.Equal(t, 1, h.world.Deliveries(task.ID))
}

// TestOneUnreachableAgent has an agent whose runs cannot be followed: that is no reason to refuse what others want.
func TestOneUnreachableAgent(t *testing.T) {
	t.Parallel()
	h := newHarness(t, fake.Config{Before: func(_ context.Context, c fake.Call) error {
		if c.Method == fake.Follow && c.Agent.Name == "bad" {
			return fleet.Errorf(fleet.ReasonBackendUnavailable, "the agent does not answer")
		}
		return nil
	}}, func(c *state.Config) { c.PollInterval = time.Hour })
	h.create("bad")
	h.start("bad", "done")
	<-h.world.Called(fake.Follow, 2)
	h.create("good")
	require.Equal(t, fleet.TaskCompleted, h.end(h.start("good", "done").ID).Status)
}

// TestHungWorkspaces has as many workspaces being made as are made at a time, for ever: tasks are begun and stopped all
// the same, and what hangs is tried again.
func TestHungWorkspaces(t *testing.T) {
	t.Parallel()
	hung := make(chan struct{}, 100)
	var healed atomic.Bool
	h := newHarness(t, fake.Config{Before: func(ctx context.Context, c fake.Call) error {
		if c.Method == fake.Provision && strings.HasPrefix(c.Agent.Name, "bad") && !healed.Load() {
			hung <- struct{}{}
			return hang(ctx)
		}
		return nil
	}}, func(c *state.Config) {
		c.Workers, c.CreateWait, c.OpTimeout = 2, 20*time.Second, time.Second
	})
	h.create("good")
	bad := make(chan error, 2)
	for _, name := range []string{"bad1", "bad2"} {
		go func() {
			_, _, err := h.CreateAgent(h.ctx(), service.CreateAgentRequest{Name: name, Project: "Setup", Spec: "s"})
			bad <- err
		}()
	}
	<-hung
	<-hung
	task := h.start("good", "wait gate")
	<-h.world.Reached("gate")
	stopped, _, _, err := h.StopTask(h.ctx(), "good", "")
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
		"hangs": hang,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var armed atomic.Bool
			h := newHarness(t, fake.Config{Before: func(ctx context.Context, c fake.Call) error {
				if c.Method == fake.Inspect && c.Agent.Name == "a-bad" && armed.Load() {
					return fails(ctx)
				}
				return nil
			}}, func(c *state.Config) { c.CallTimeout = 200 * time.Millisecond })
			h.create("a-bad")
			h.create("gone")
			h.create("stopped")
			armed.Store(true)
			h.world.DeleteWorkspace("a-bad")
			h.world.DeleteWorkspace("gone")
			h.world.StopWorkspace("stopped")
			h.until("stopped", func(v *fleet.AgentView) bool { return v.State == fleet.StateStopped })
			h.stored(func() bool {
				_, err := h.ShowAgent(h.ctx(), "gone")
				return reason(err) == fleet.ReasonAgentNotFound
			})
			_, err := h.ShowAgent(h.ctx(), "a-bad")
			require.NoError(t, err)
			require.Len(t, h.events(fleet.EventAgentDeleted), 1)
		})
	}
}

// TestRunThatCannotBeInterrupted stops tasks of agents that cannot be reached: the stop goes on to stronger means, is
// told of once a step, and ends with the workspace when that is to stop.
func TestRunThatCannotBeInterrupted(t *testing.T) {
	t.Parallel()
	h := newHarness(t, fake.Config{Before: func(_ context.Context, c fake.Call) error {
		if c.Method == fake.Interrupt || c.Method == fake.Follow {
			return fleet.Errorf(fleet.ReasonBackendUnavailable, "the agent does not answer")
		}
		return nil
	}}, nil)
	h.create("papi")
	task := h.start("papi", "wait gate")
	<-h.world.Reached("gate")
	v, _, err := h.StopAgent(h.ctx(), "papi", "")
	require.NoError(t, err)
	require.Equal(t, fleet.StateStopped, v.State)
	ended := h.end(task.ID)
	require.Equal(t, fleet.TaskStopped, ended.Status)
	require.LessOrEqual(t, len(h.events(fleet.EventTaskStopping)), 4)
}

// TestRestartWhileBeingMade asks for another role while the workspace is made in the first one.
func TestRestartWhileBeingMade(t *testing.T) {
	t.Parallel()
	h := newHarness(t, fake.Config{}, nil)
	gate := h.world.HoldAfter(fake.Provision)
	created := make(chan error, 1)
	go func() {
		_, _, err := h.CreateAgent(h.ctx(), service.CreateAgentRequest{Name: "papi", Project: "Setup", Spec: "x"})
		created <- err
	}()
	<-gate.Arrived()
	restarted := make(chan error, 1)
	go func() {
		_, _, err := h.RestartAgent(h.ctx(), "papi", "manager", "")
		restarted <- err
	}()
	h.until("papi", func(v *fleet.AgentView) bool { return v.Role == "manager" })
	gate.Open()
	require.NoError(t, <-restarted)
	require.NoError(t, <-created)
	ws, _ := h.world.Workspace("papi")
	require.Equal(t, "manager", ws.Role)
}

// TestStartedBehindTheBack starts a workspace at its host that Fleet was asked to stop: it is not stopped again.
func TestStartedBehindTheBack(t *testing.T) {
	t.Parallel()
	h := newHarness(t, fake.Config{}, nil)
	h.create("papi")
	_, _, err := h.StopAgent(h.ctx(), "papi", "")
	require.NoError(t, err)
	stops := h.world.Calls(fake.Stop)
	h.world.StartWorkspace("papi")
	h.until("papi", func(v *fleet.AgentView) bool { return v.Status() == fleet.StatusIdle })
	require.Equal(t, fleet.TaskCompleted, h.end(h.start("papi", "done").ID).Status)
	require.Equal(t, stops, h.world.Calls(fake.Stop))
}

// TestStoppedBeforeItWasMade stops an agent whose workspace is being made: what was made of it stops too.
func TestStoppedBeforeItWasMade(t *testing.T) {
	t.Parallel()
	h := newHarness(t, fake.Config{}, nil)
	gate := h.world.HoldAfter(fake.Provision)
	go func() {
		_, _, _ = h.CreateAgent(h.ctx(), service.CreateAgentRequest{Name: "papi", Project: "Setup", Spec: "x"})
	}()
	<-gate.Arrived()
	_, _, err := h.StopAgent(h.ctx(), "papi", "")
	require.NoError(t, err)
	h.until("papi", func(v *fleet.AgentView) bool { return v.State == fleet.StateStopped && v.WorkspaceID != "" })
	ws, ok := h.world.Workspace("papi")
	require.True(t, ok)
	require.Equal(t, fleet.StateStopped, ws.State)
}

// TestDeadlineOfATaskThatWaits has a task that was never handed over, since its agent is unhealthy: it ends in time.
func TestDeadlineOfATaskThatWaits(t *testing.T) {
	t.Parallel()
	h := newHarness(t, fake.Config{}, nil)
	v := h.create("papi")
	h.rec.Stop()
	task, err := h.StartTask(h.ctx(), service.StartTaskRequest{Agent: "papi", Description: "done", Timeout: time.Second})
	require.NoError(t, err)
	h.world.MakeUnhealthy("papi", "no answer")
	require.NoError(t, h.store.Update(t.Context(), func(tx fleet.Tx) error {
		a, err := tx.Agent(v.UID)
		require.NoError(t, err)
		a.State, a.StateReason = fleet.StateUnhealthy, "no answer"
		require.NoError(t, tx.UpdateAgent(a))
		return tx.Append(&fleet.Event{Time: time.Now(), Type: fleet.EventAgentChanged, AgentUID: a.UID, AgentName: a.Name, Owner: a.Owner})
	}))
	h.cfg.Now = func() time.Time { return time.Now().Add(time.Hour) }
	h.restart()
	ended := h.end(task.ID)
	require.Equal(t, fleet.TaskFailed, ended.Status)
	require.Contains(t, ended.Reason, "limit of 1s")
	require.Zero(t, h.world.Deliveries(task.ID))
}

// TestHostThatCancels has a backend that says canceled of itself: an error like any other.
func TestHostThatCancels(t *testing.T) {
	t.Parallel()
	h := newHarness(t, fake.Config{}, nil)
	h.world.Fail(fake.Provision, 1, context.Canceled)
	_, _, err := h.CreateAgent(h.ctx(), service.CreateAgentRequest{Name: "papi", Project: "Setup", Spec: "x"})
	require.Equal(t, fleet.ReasonProvisioningFailed, reason(err))
	require.Equal(t, 1, h.world.Calls(fake.Provision))
}
