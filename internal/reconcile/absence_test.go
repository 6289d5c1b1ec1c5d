package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
	"fleet/internal/waittest"
)

// TestPlaceWithTokenOfAnotherUser gives the place another user's token. No agent may count as deleted, and all must say why nothing
// is known about them. A task must continue afterwards, even if the server was restarted meanwhile.
func TestPlaceWithTokenOfAnotherUser(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{Traits: fleet.Traits{Adopts: true}}, nil)
	names := make([]string, 6)
	for i := range names {
		names[i] = fmt.Sprintf("agent-%d", i)
		h.Create(names[i])
	}
	task := h.Start("agent-0", "wait gate\ndone at last")
	<-h.FakePlace.Reached("gate")
	h.FakePlace.SetOtherCaller(true)
	for range 2 {
		for _, name := range names {
			h.WaitAgent(name, func(v *fleet.AgentView) bool {
				return v.State == fleet.StateUnhealthy && strings.Contains(v.StateReason, "another user") && v.Status() == fleet.StatusOffline
			})
		}
		h.WaitObserved(func() bool { return strings.Contains(h.Problem(0), "another user") })
		h.Restart()
	}
	require.Empty(t, h.Events(fleet.EventAgentDeleted))
	h.FakePlace.SetOtherCaller(false)
	for _, name := range names {
		h.WaitAgent(name, func(v *fleet.AgentView) bool { return v.State == fleet.StateRunning && v.StateReason == "" })
	}
	h.FakePlace.Release("gate")
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(task.ID).Status)
	require.Equal(t, 1, h.FakePlace.RunCount(task.ID))
}

// TestWorkspaceThatIsNotShown hides a running and a stopped workspace. Their agents must stay, say why, and be as before when
// the host shows the workspaces again.
func TestWorkspaceThatIsNotShown(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{Traits: fleet.Traits{Adopts: true}}, nil)
	h.Create("still")
	h.MustStop("still")
	h.FakePlace.HideWorkspace("papi")
	h.FakePlace.HideWorkspace("still")
	notShown := func(v *fleet.AgentView) bool { return strings.Contains(v.StateReason, "does not show") }
	require.Equal(t, fleet.StateUnhealthy, h.WaitAgent("papi", notShown).State)
	require.Equal(t, fleet.StateStopped, h.WaitAgent("still", notShown).State)
	stops := h.FakePlace.Calls(fake.Stop)
	h.Restart()
	h.FakePlace.ShowWorkspace("papi")
	h.FakePlace.ShowWorkspace("still")
	h.WaitAgent("papi", func(v *fleet.AgentView) bool { return v.Status() == fleet.StatusIdle })
	v := h.WaitAgent("still", func(v *fleet.AgentView) bool { return v.StateReason == "" })
	require.Equal(t, []any{fleet.StateStopped, fleet.DesiredStopped}, []any{v.State, v.Desired})
	require.Equal(t, stops, h.FakePlace.Calls(fake.Stop), "nobody may try to stop a stopped workspace")
	require.Empty(t, h.Events(fleet.EventAgentDeleted))
}

// TestManyWorkspacesDeletedAtOnce deletes more workspaces at the host than maxDeletedAtOnce. The agents must stay until a person
// deletes them.
func TestManyWorkspacesDeletedAtOnce(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{Traits: fleet.Traits{Adopts: true}}, nil)
	for i := range 5 {
		h.Create(fmt.Sprintf("agent-%d", i))
	}
	gate := h.FakePlace.Hold(fake.List) // so that one listing shows all deletions
	<-gate.Arrived()
	for i := range 5 {
		h.FakePlace.DeleteWorkspace(fmt.Sprintf("agent-%d", i))
	}
	gate.Open()
	for i := range 5 {
		v := h.WaitAgent(fmt.Sprintf("agent-%d", i), func(v *fleet.AgentView) bool { return strings.Contains(v.StateReason, "deleted at once") })
		require.Equal(t, fleet.StateUnhealthy, v.State)
	}
	h.Restart()
	<-h.FakePlace.Called(fake.List, h.FakePlace.Calls(fake.List)+3)
	require.Empty(t, h.Events(fleet.EventAgentDeleted))
	for i := range 5 {
		_, _, err := h.DeleteAgent(h.Context(), fmt.Sprintf("agent-%d", i), false, "")
		if fleet.ReasonOf(err) != fleet.ReasonAgentNotFound { // once only few workspaces are left, their agents count as deleted
			require.NoError(t, err)
		}
	}
}

// TestWorkspaceThatIsNotShownForDays checks that an agent is recorded as deleted if its host does not show its workspace for
// days, and that the same agent comes back when the host shows the workspace again.
func TestWorkspaceThatIsNotShownForDays(t *testing.T) {
	t.Parallel()
	var clockOffset atomic.Int64
	h := servicetest.New(t, fake.Config{Traits: fleet.Traits{Adopts: true}}, shiftClock(&clockOffset))
	v := h.Create("papi")
	day := int64(24 * time.Hour)
	clockOffset.Store(10 * day) // the agent has not changed in these days
	hide := func() {
		t.Helper()
		h.FakePlace.HideWorkspace("papi")
		h.WaitAgent("papi", func(v *fleet.AgentView) bool { return v.State == fleet.StateUnhealthy })
	}
	hide()
	clockOffset.Add(6 * day)
	<-h.FakePlace.Called(fake.Inspect, h.FakePlace.Calls(fake.Inspect)+3)
	h.WaitAgent("papi", func(v *fleet.AgentView) bool { return v.State == fleet.StateUnhealthy })
	h.FakePlace.ShowWorkspace("papi")
	h.WaitAgent("papi", func(v *fleet.AgentView) bool { return v.State == fleet.StateRunning })
	clockOffset.Add(2 * day)
	hide() // the days begin again
	h.FakePlace.SetOtherCaller(true)
	h.WaitAgent("papi", func(v *fleet.AgentView) bool { return strings.Contains(v.StateReason, "another user") })
	clockOffset.Add(8 * day) // nobody has looked for it in these days
	h.FakePlace.SetOtherCaller(false)
	h.WaitAgent("papi", func(v *fleet.AgentView) bool { return strings.Contains(v.StateReason, "does not show") })
	clockOffset.Add(8 * day)
	require.Contains(t, h.WaitDeleted(v.UID).StateReason, "for 7 days")
	h.FakePlace.ShowWorkspace("papi")
	h.WaitStored(func() bool {
		back, err := h.ShowAgent(h.Context(), "papi")
		return err == nil && back.UID == v.UID && back.Status() == fleet.StatusIdle
	})
}

// TestAgentThatWasDeletedByMistake deletes an agent whose workspace the host does not show. The answer must say that the
// workspace may exist. When the host shows it again, the agent comes back with its history.
func TestAgentThatWasDeletedByMistake(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{Traits: fleet.Traits{Adopts: true}}, nil)
	v := h.Create("papi")
	task := h.Start("papi", "done")
	h.WaitTask(task.ID)
	h.FakePlace.HideWorkspace("papi")
	_, text, err := h.DeleteAgent(h.Context(), "papi", false, "")
	require.NoError(t, err)
	require.Contains(t, text, "was not deleted")
	h.FakePlace.ShowWorkspace("papi")
	h.WaitStored(func() bool {
		back, err := h.ShowAgent(h.Context(), "papi")
		return err == nil && back.UID == v.UID && back.Status() == fleet.StatusIdle
	})
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(h.Start("papi", "done").ID).Status)
	require.Contains(t, h.Events(fleet.EventAgentCreated)[1], "is back")
}

// TestStopThatIsNotDelivered stops a task while its agent cannot be reached. Until the run has been asked to end, Fleet must
// neither kill it nor stop its workspace.
func TestStopThatIsNotDelivered(t *testing.T) {
	t.Parallel()
	var interrupts, kills atomic.Int64
	delivering, checked := make(chan struct{}), make(chan struct{})
	h := servicetest.NewWithPapi(t, fake.Config{Traits: fleet.Traits{StopEndsRuns: true}, Before: func(ctx context.Context, c fake.Call) error {
		if c.Method != fake.Interrupt {
			return nil
		}
		if c.Kill {
			kills.Add(1)
		}
		if interrupts.Add(1) == 6 { // the first one that does not fail
			close(delivering)
			select {
			case <-checked:
			case <-ctx.Done():
			}
		}
		return ctx.Err()
	}}, func(c *state.Config) { c.CallTimeout = waittest.Limit })
	task := h.Start("papi", "wait gate")
	<-h.FakePlace.Reached("gate")
	h.FakePlace.Fail(fake.Interrupt, 5, nil) // longer than all grace periods together
	stopping := make(chan error, 1)
	go func() {
		stopped, _, _, err := h.StopTask(h.Context(), "papi", "")
		if err == nil && stopped.ID != task.ID {
			err = errors.New("it has stopped the task " + stopped.ID)
		}
		stopping <- err
	}()
	<-delivering
	require.Zero(t, kills.Load())
	require.Zero(t, h.FakePlace.Calls(fake.Stop))
	steps := h.TaskEvents(task.ID, fleet.EventTaskStopping)
	require.Contains(t, strings.Join(steps, "\n"), "not delivered yet")
	require.NotContains(t, strings.Join(steps, "\n"), "kill")
	close(checked)
	require.NoError(t, <-stopping)
	require.Equal(t, fleet.TaskStopped, h.WaitTask(task.ID).Status)
}

// TestStopThatIsNeverDelivered checks that a task whose agent cannot be reached ends soon after its time limit.
func TestStopThatIsNeverDelivered(t *testing.T) {
	t.Parallel()
	var clockOffset atomic.Int64
	h := servicetest.NewWithPapi(t, fake.Config{Traits: fleet.Traits{StopEndsRuns: true}}, shiftClock(&clockOffset))
	task := h.Start("papi", "wait gate")
	<-h.FakePlace.Reached("gate")
	h.FakePlace.Fail(fake.Interrupt, 1<<30, nil)
	stopped := startCall(func() error { _, _, _, err := h.StopTask(h.Context(), "papi", ""); return err })
	<-h.FakePlace.Called(fake.Interrupt, 2)
	clockOffset.Store(int64(100 * time.Hour))
	require.NoError(t, <-stopped)
	ended := h.WaitTask(task.ID)
	require.Equal(t, fleet.TaskStopped, ended.Status)
	require.Zero(t, h.FakePlace.Calls(fake.Stop))
}

// shiftClock returns a change of the configuration that sets the fleet's clock forward by a number of nanoseconds, which the test may
// change at any time.
func shiftClock(offset *atomic.Int64) func(*state.Config) {
	return func(c *state.Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
	}
}
