package service_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
	"fleet/internal/waittest"
)

// TestCreateAgainWithTheSameID repeats create_agent after its project was removed and its agent was stopped or deleted.
// It checks that no other agent is created, and that the call fails if the agent is not ready.
func TestCreateAgainWithTheSameID(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	create := func() (*fleet.AgentView, string, error) {
		return h.CreateAgent(h.Context(), service.CreateAgentRequest{Name: "papi", Project: "Setup", Spec: "x", RequestID: "one"})
	}
	first, _, err := create()
	require.NoError(t, err)

	h.World.SetProjects() // the project is gone
	h.Restart()
	again, message, err := create()
	require.NoError(t, err)
	require.Equal(t, first.UID, again.UID)
	require.Equal(t, "Agent 'papi' created successfully", message)

	_, _, err = h.StopAgent(h.Context(), "papi", "")
	require.NoError(t, err)
	_, _, err = create()
	require.Equal(t, fleet.ReasonAgentOffline, fleet.ReasonOf(err))
	require.ErrorContains(t, err, "was stopped meanwhile")

	_, _, err = h.RestartAgent(h.Context(), service.RestartAgentRequest{Agent: "papi", RequestID: "restart"})
	require.NoError(t, err)
	_, _, err = h.DeleteAgent(h.Context(), "papi", false, "")
	require.NoError(t, err)
	_, _, err = create()
	require.Equal(t, fleet.ReasonAgentNotFound, fleet.ReasonOf(err))
	require.ErrorContains(t, err, "was created by this request, and has been deleted since")
	require.Empty(t, h.World.Workspaces())
}

// TestStoppedMeanwhile checks that a call that waits for an agent fails if the agent reaches another state than the requested
// one, because somebody else has changed it.
func TestStoppedMeanwhile(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, func(c *state.Config) { c.PollInterval = time.Hour })
	h.Create("papi")
	hold := func(m fake.Method, call func() error, meanwhile func() error) error {
		gate := h.World.HoldAfter(m)
		done := make(chan error, 1)
		go func() { done <- call() }()
		<-gate.Arrived()
		other := make(chan error, 1)
		go func() { other <- meanwhile() }()
		h.WaitAgent("papi", func(v *fleet.AgentView) bool { return v.Desired == fleet.DesiredStopped == (m != fake.Stop) })
		gate.Open()
		require.NoError(t, <-other)
		return <-done
	}
	stop := func() error { _, _, err := h.StopAgent(h.Context(), "papi", ""); return err }
	start := func() error { _, _, err := h.StartAgent(h.Context(), "papi", ""); return err }
	restart := func() error {
		_, _, err := h.RestartAgent(h.Context(), service.RestartAgentRequest{Agent: "papi"})
		return err
	}

	err := hold(fake.Stop, stop, start) // a start during the stop
	require.Equal(t, fleet.ReasonProvisioningFailed, fleet.ReasonOf(err), err)
	require.ErrorContains(t, err, "is not stopped")
	require.NoError(t, stop())
	for _, call := range []func() error{start, restart} {
		err = hold(fake.Start, call, stop)
		require.Equal(t, fleet.ReasonAgentOffline, fleet.ReasonOf(err), err)
		require.ErrorContains(t, err, "was stopped meanwhile")
	}
}

// TestStartOfABusyAgent checks that a start does not end the task of an agent whose workspace has just become unhealthy.
func TestStartOfABusyAgent(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, func(c *state.Config) { c.PollInterval = time.Hour })
	h.Create("papi")
	task := h.Start("papi", "wait gate")
	<-h.World.Reached("gate")
	h.World.MakeUnhealthy("papi", "its workspace's agent has lost its connection")
	_, _, err := h.StartAgent(h.Context(), "papi", "")
	require.Equal(t, fleet.ReasonAgentBusy, fleet.ReasonOf(err))
	require.ErrorContains(t, err, "has lost its connection")
	h.World.Release("gate")
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(task.ID).Status)
}

// TestStartDuringSomebodysStop starts an agent whose workspace somebody has just stopped at its host, before Fleet has noticed
// that, also while the agent has a task.
func TestStartDuringSomebodysStop(t *testing.T) {
	t.Parallel()
	for _, busy := range []bool{false, true} {
		h := servicetest.New(t, fake.Config{}, func(c *state.Config) { c.PollInterval = time.Hour })
		h.Create("papi")
		if busy {
			h.Start("papi", "wait gate")
			<-h.World.Reached("gate")
			follow := h.World.HoldAfter(fake.Follow) // the end of the run is not known yet
			defer follow.Open()
		}
		h.World.StopWorkspace("papi")
		_, message, err := h.StartAgent(h.Context(), "papi", "")
		require.NoError(t, err)
		require.Equal(t, "Agent 'papi' is running", message)
		ws, _ := h.World.Workspace("papi")
		require.Equal(t, fleet.StateRunning, ws.State)
		require.Equal(t, 1, h.World.Calls(fake.Start))
	}
}

// TestOfflineBeforeIdle checks that calls about the running task of a stopped agent fail because the agent is offline,
// not because it has no task.
func TestOfflineBeforeIdle(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	h.Create("papi")
	_, _, err := h.StopAgent(h.Context(), "papi", "")
	require.NoError(t, err)
	_, _, _, err = h.StopTask(h.Context(), "papi", "")
	require.Equal(t, fleet.ReasonAgentOffline, fleet.ReasonOf(err))
	_, _, err = h.SendMessage(h.Context(), "papi", "hi", "")
	require.Equal(t, fleet.ReasonAgentOffline, fleet.ReasonOf(err))
}

// TestWatchEndsWithItsTask checks that the stream of a task ends even if the log has an event of the task after its
// end.
func TestWatchEndsWithItsTask(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	h.Create("papi")
	task := h.Start("papi", "wait gate\ndone")
	<-h.World.Reached("gate")
	begun, logged := make(chan struct{}), make(chan struct{})
	watched := make(chan error, 1)
	var types []fleet.EventType
	go func() {
		watched <- h.Watch(h.Context(), service.WatchRequest{TaskID: task.ID, Follow: true, Wait: -1}, func(events []fleet.Event, _ string) error {
			if types == nil {
				close(begun)
				<-logged
			}
			for _, e := range events {
				types = append(types, e.Type)
			}
			return nil
		})
	}()
	<-begun
	h.World.Release("gate")
	h.WaitTask(task.ID)
	require.NoError(t, h.Store.Update(t.Context(), func(tx fleet.Tx) error {
		return tx.Append(&fleet.Event{Type: fleet.EventTaskStep, AgentUID: task.AgentUID, AgentName: "papi", Owner: "alice", TaskID: task.ID, Text: "late"})
	}))
	close(logged)
	require.NoError(t, <-watched)
	require.Equal(t, fleet.EventTaskStep, types[len(types)-1])
}

// TestWatchFromNowOfATaskThatEnds checks that a stream from now on ends if its task ends while the stream begins.
func TestWatchFromNowOfATaskThatEnds(t *testing.T) {
	t.Parallel()
	h, flaky := servicetest.NewFlaky(t, nil)
	h.Create("papi")
	task := h.Start("papi", "wait gate\ndone")
	<-h.World.Reached("gate")
	_, err := h.ListAgents(h.Context(), fleet.ListAgentsRequest{}) // so that the stream finds nothing new, and its first view is its own
	require.NoError(t, err)
	before := servicetest.OnCall(1, func() {
		h.World.Release("gate")
		h.WaitStored(func() (ended bool) {
			err := h.Store.View(t.Context(), func(tx fleet.ReadTx) error {
				stored, err := tx.Task(task.ID)
				ended = !stored.Active()
				return err
			})
			return err == nil && ended
		})
	})
	flaky.OnView(func(ctx context.Context) {
		if ctx.Value(task) != nil {
			before()
		}
	})
	ctx, cancel := context.WithTimeout(context.WithValue(h.Context(), task, true), waittest.Limit)
	defer cancel()
	err = h.Watch(ctx, service.WatchRequest{TaskID: task.ID, Cursor: "now", Follow: true, Wait: -1}, func([]fleet.Event, string) error { return nil })
	require.NoError(t, err)
}

// TestWatchOneOwnersAgent checks that Watch accepts NAME@OWNER, and that a plain name means all visible agents of that
// name.
func TestWatchOneOwnersAgent(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	h.Create("papi")
	_, _, err := h.CreateAgent(servicetest.As(t.Context(), "bob"), service.CreateAgentRequest{Name: "papi", Project: "Setup", Spec: "x"})
	require.NoError(t, err)
	owners := map[string]bool{}
	watch := func(ctx context.Context, agent string) error {
		clear(owners)
		return h.Watch(ctx, service.WatchRequest{AgentName: agent}, func(events []fleet.Event, _ string) error {
			for _, e := range events {
				owners[e.Owner] = true
			}
			return nil
		})
	}
	require.NoError(t, watch(servicetest.AsAdmin(t.Context()), "PAPI@bob"))
	require.Equal(t, map[string]bool{"bob": true}, owners)
	require.NoError(t, watch(servicetest.AsAdmin(t.Context()), "papi"))
	require.Len(t, owners, 2)
	require.NoError(t, watch(h.Context(), "papi@alice"))
	require.Equal(t, map[string]bool{"alice": true}, owners)
	require.Equal(t, fleet.ReasonAgentNotFound, fleet.ReasonOf(watch(h.Context(), "papi@bob")))
	require.Empty(t, owners)
}

// TestWatchStopsInTime checks that Watch returns when its time is over, even if the log has more events.
func TestWatchStopsInTime(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	h.Create("papi")
	h.WaitTask(h.Start("papi", "repeat 600 line\ndone").ID)
	got := 0
	err := h.Watch(h.Context(), service.WatchRequest{Follow: true, Wait: 0}, func(events []fleet.Event, _ string) error {
		got += len(events)
		return nil
	})
	require.NoError(t, err)
	require.NotZero(t, got)
	require.Less(t, got, 600)
}

// TestTokenOfUnknownKind checks that a token of an unknown kind is refused.
func TestTokenOfUnknownKind(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	for _, kind := range []fleet.PrincipalKind{"", "robot", "99"} {
		_, _, _, err := h.CreateToken(servicetest.AsAdmin(t.Context()), service.CreateTokenRequest{Name: "x", Kind: kind})
		require.Equal(t, fleet.ReasonInvalidArgument, fleet.ReasonOf(err), fmt.Sprint(kind))
	}
}
