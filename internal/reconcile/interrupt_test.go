package reconcile_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/reconcile"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
	"fleet/internal/waittest"
)

// endElsewhere ends the task of the agent in the store, as another server does, and does not interrupt its run.
func endElsewhere(t *testing.T, h *servicetest.Harness, uid string, now time.Time) {
	t.Helper()
	require.NoError(t, h.Store.Update(t.Context(), func(tx fleet.Tx) error {
		v, err := state.ReadAgentView(tx, uid)
		require.NoError(t, err)
		return state.EndTask(tx, &v.Agent, v.Task, fleet.Outcome{Status: fleet.TaskCompleted, Reported: true}, now.UTC(), nil)
	}))
}

// TestEndedTaskWhoseRunWasNotInterrupted records the end of a task without interrupting its run. This happens if a server
// dies in between or cannot reach the run. The test checks that the run is interrupted afterwards, and that the agent is
// then deleted.
func TestEndedTaskWhoseRunWasNotInterrupted(t *testing.T) {
	t.Parallel()
	second := servicetest.SecondPlace(t, fake.Config{})
	h := servicetest.New(t, fake.Config{}, servicetest.WithToolsetPlace(second))
	v, err := h.Launch(h.Context(), servicetest.LaunchRequest("wait gate"))
	require.NoError(t, err)
	<-second.Reached("gate")
	endElsewhere(t, h, v.UID, time.Now())
	start := time.Now()
	h.WaitDeleted(v.UID)
	require.Less(t, time.Since(start), time.Minute)
	require.Equal(t, 1, second.Calls(fake.Interrupt))
}

// TestRunOnThisMachine ends a task as another server does. The run is on the machine of this server, so only this server
// can interrupt the run. It must do so without waiting for the other server. The clock stands still, so that no wait would end.
func TestRunOnThisMachine(t *testing.T) {
	t.Parallel()
	second := servicetest.SecondPlace(t, fake.Config{Traits: fleet.Traits{Name: fleet.PlaceOn("second", "here")}})
	now := time.Now()
	h := servicetest.New(t, fake.Config{}, func(c *state.Config) {
		c.Replica, c.OtherPlaces, c.Now = "here", []fleet.Place{second}, func() time.Time { return now }
	})
	r := servicetest.LaunchRequest("wait gate")
	r.Place = fleet.PlaceOn("second", "here")
	v, err := h.Launch(h.Context(), r)
	require.NoError(t, err)
	<-second.Reached("gate")
	endElsewhere(t, h, v.UID, now)
	h.WaitDeleted(v.UID)
	require.Equal(t, 1, second.Calls(fake.Interrupt))
}

// TestTaskThatEndsBeforeItsRun ends a task when its dispatch is recorded and the agent has no token yet. There must be
// neither a run nor a token afterwards.
func TestTaskThatEndsBeforeItsRun(t *testing.T) {
	t.Parallel()
	second := servicetest.SecondPlace(t, fake.Config{Traits: fleet.Traits{ReachesFleet: true}})
	r := servicetest.LaunchRequest("wait gate")
	r.UID = "u1"
	var h *servicetest.Harness
	harnessReady := make(chan struct{})
	h = servicetest.New(t, fake.Config{}, func(c *state.Config) {
		servicetest.WithToolsetPlace(second)(c)
		c.MCPURL = func() string { return "http://127.0.0.1:1/mcp" }
		c.Fault = func(point string) {
			if point == reconcile.FaultDispatchRecorded {
				<-harnessReady
				endElsewhere(t, h, r.UID, time.Now())
			}
		}
	})
	close(harnessReady)
	_, err := h.Launch(h.Context(), r)
	require.NoError(t, err)
	h.WaitDeleted(r.UID)
	require.Zero(t, second.Calls(fake.Dispatch))
	require.Empty(t, servicetest.Read(h, func(tx fleet.ReadTx) ([]*fleet.Token, error) { return tx.Tokens(fleet.TokenFilter{AgentUID: r.UID}) }))
}

// ignoringPlace is a place whose first interrupt has no effect, like an interrupt that comes before the run.
type ignoringPlace struct {
	*fake.Place
	once sync.Once
}

func (p *ignoringPlace) Connect(a fleet.Agent) fleet.Runner {
	return ignoringRunner{p.Place.Connect(a), p}
}

type ignoringRunner struct {
	fleet.Runner
	place *ignoringPlace
}

func (r ignoringRunner) Interrupt(ctx context.Context, run fleet.Run, kill bool) error {
	first := false
	r.place.once.Do(func() { first = true })
	if first {
		return nil
	}
	return r.Runner.Interrupt(ctx, run, kill)
}

// TestInterruptBeforeTheRun ends a task while it is dispatched, so that the interrupt comes before the run and has no
// effect. It must be repeated.
func TestInterruptBeforeTheRun(t *testing.T) {
	t.Parallel()
	waittest.Until(t, "an interrupt that is too late is repeated", func() bool { return interruptBeforeTheRun(t) })
}

// interruptBeforeTheRun does the work of TestInterruptBeforeTheRun. inTime is false if this machine was so slow that the interrupt may have
// come after the dispatch.
func interruptBeforeTheRun(t *testing.T) (inTime bool) {
	t.Helper()
	r := servicetest.LaunchRequest("wait gate")
	r.UID = "u1"
	var h *servicetest.Harness
	var took time.Duration
	second := servicetest.SecondPlace(t, fake.Config{After: func(_ context.Context, c fake.Call) error {
		if c.Method == fake.Dispatch { // until it returns, the fleet does not know that there is a run
			start := time.Now()
			_, err := h.CompleteByUID(h.Context(), r.UID, "done", nil, 10)
			assert.NoError(t, err)
			took = time.Since(start)
		}
		return nil
	}})
	h = servicetest.New(t, fake.Config{}, servicetest.WithToolsetPlace(&ignoringPlace{Place: second}))
	_, err := h.Launch(h.Context(), r)
	require.NoError(t, err)
	start := time.Now()
	h.WaitDeleted(r.UID)
	if took >= 2*time.Second { // CompleteByUID did not wait for the interrupt
		return false
	}
	require.Less(t, time.Since(start), time.Minute)
	require.Equal(t, 1, second.Calls(fake.Interrupt))
	return true
}
