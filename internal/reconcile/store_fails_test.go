package reconcile_test

import (
	"errors"
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

// TestStoreFails lets every third call to the store fail for a while. It checks that the task still completes, is dispatched
// once, and has its whole output once.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	h, flaky := servicetest.NewFlaky(t, func(c *state.Config) { c.LeaseTTL = time.Second })
	h.Create("papi")
	task := h.Start("papi", "repeat 300 line\nwait gate\necho last\ndone well")
	flaky.FailEvery.Store(3)
	<-h.FakePlace.Reached("gate")
	time.AfterFunc(200*time.Millisecond, func() { h.FakePlace.Release("gate") })
	<-h.FakePlace.Ended(task.ID)
	time.AfterFunc(time.Second, func() { flaky.FailEvery.Store(0) })
	h.WaitStored(func() bool {
		for {
			tasks, done, err := h.WaitTasks(h.Context(), []string{task.ID}, service.WaitCondition{}, 0)
			if !errors.Is(err, servicetest.ErrFlaky) { // this read may fail too
				return err == nil && done && tasks[0].Status == fleet.TaskCompleted
			}
		}
	})
	flaky.FailEvery.Store(0)
	text := h.Output(task.ID)
	require.Equal(t, 1, strings.Count(text, "line 300"))
	require.True(t, strings.HasSuffix(text, "line 300last"), text)
	require.Equal(t, 1, h.FakePlace.RunCount(task.ID))
	h.MustDelete("papi")
}

// TestLeaseOutlivesPreviousWorker starts a task while the previous work on the agent is releasing its lease. It checks that the
// task begins only after the release, and that the agent then has a new lease, so that no other reconciler can take it.
func TestLeaseOutlivesPreviousWorker(t *testing.T) {
	t.Parallel()
	h, flaky := servicetest.NewFlaky(t, func(c *state.Config) { c.LeaseTTL = time.Hour })
	releaseBegun, allowRelease, releaseDone := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var held atomic.Bool // the first release was held up
	flaky.OnRelease(func(key string) func() {
		if !strings.HasPrefix(key, "agent/") || held.Swap(true) {
			return func() {}
		}
		close(releaseBegun)
		<-allowRelease
		return func() { close(releaseDone) }
	})
	v := h.Create("papi")
	<-releaseBegun
	h.Start("papi", "wait gate")
	select {
	case <-h.FakePlace.Reached("gate"):
		t.Error("the task began while the lease was being released")
	case <-time.After(100 * time.Millisecond):
	}
	close(allowRelease)
	<-releaseDone
	<-h.FakePlace.Reached("gate")
	epoch, err := h.Store.AcquireLease(t.Context(), "agent/"+v.UID, "thief", time.Hour)
	require.NoError(t, err)
	require.Zero(t, epoch, "another owner got the lease while a worker was busy with the agent")
	h.FakePlace.Release("gate")
}

// TestOutputIsRecordedOnce lets another process record output of a task that its follower has not recorded yet. It checks
// that no output is recorded twice.
func TestOutputIsRecordedOnce(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{}, nil)
	task := h.Start("papi", "echo one\nwait gate\necho two\necho three\ndone")
	<-h.FakePlace.Reached("gate")
	h.WaitStored(func() bool { return h.Output(task.ID) == "one" })
	require.NoError(t, h.Store.Update(t.Context(), func(tx fleet.Tx) error { // as a second follower does
		current, err := tx.Task(task.ID)
		require.NoError(t, err)
		current.Cursor = "2"
		require.NoError(t, tx.Update(current))
		return tx.Append(&fleet.Event{
			Time: time.Now(), Type: fleet.EventTaskOutput, AgentUID: current.AgentUID, AgentName: current.AgentName, Owner: current.Owner,
			TaskID: current.ID, Text: "two",
		})
	}))
	h.FakePlace.Release("gate")
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(task.ID).Status)
	require.Equal(t, "onetwothree", h.Output(task.ID))
}
