package reconcile_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/reconcile"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// checkPoints are the fault points that only tasks with checks reach.
var checkPoints = []string{reconcile.FaultCheckBefore, reconcile.FaultCheckAfter, reconcile.FaultRetryRecorded}

// newDyingServer starts a fleet whose reconciler stops when it reaches the fault point for the n-th time. Another reconciler then
// takes over. takenOver is closed when the other reconciler has started, so that the test does not end before.
func newDyingServer(t *testing.T, world fake.Config, point string, n int) (h *servicetest.Harness, takenOver <-chan struct{}) {
	t.Helper()
	successorStarted := make(chan struct{})
	die := servicetest.OnCall(n, func() {
		go h.Reconciler.Stop() // from here on this reconciler does and records nothing
		<-h.Reconciler.Stopping()
		h.Replica()
		close(successorStarted)
	})
	h = servicetest.New(t, world, func(c *state.Config) {
		c.LeaseTTL = time.Second
		c.Fault = func(p string) {
			if p == point {
				die()
			}
		}
	})
	return h, successorStarted
}

// TestCrashWhileChecked stops the reconciler at each of checkPoints, for the first, second or third time that it is reached, while a
// task runs whose checks fail once. It checks that a second reconciler completes the task.
func TestCrashWhileChecked(t *testing.T) {
	t.Parallel()
	for _, point := range checkPoints {
		for n := 1; n <= 3 && (n == 1 || point != reconcile.FaultRetryRecorded); n++ {
			t.Run(fmt.Sprint(point, " ", n), func(t *testing.T) {
				t.Parallel()
				h, takenOver := newDyingServer(t, checksWorld, point, n)
				h.Create("papi")
				task := h.WaitTask(startTaskWithChecks(h, "papi", "echo one\ndone", 1, "echo fine", "has made fix: change made a line").ID)
				<-takenOver
				require.Equal(t, fleet.TaskCompleted, task.Status, task.Reason)
				require.Equal(t, 1, task.Try)
				require.Equal(t, []fleet.CheckStatus{fleet.CheckPassed, fleet.CheckPassed}, checkStatuses(h, task.ID))
				require.Equal(t, "one", h.Output(task.ID))
				require.Equal(t, "made", changedPath(h, task.ID))
				require.Equal(t, 1, h.FakePlace.RunCount(task.ID))
				require.Equal(t, 1, h.FakePlace.RunCount(task.ID+"-2"))
			})
		}
	}
}

// TestCrashAtEveryPoint stops the reconciler at each of the other fault points. It checks that a second reconciler on the
// same store and world continues the work, and delivers each task and message once.
func TestCrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, point := range reconcile.FaultPoints {
		if slices.Contains(checkPoints, point) || point == reconcile.FaultResultsAwaited { // see TestWokenOnceAcrossKills
			continue
		}
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			h, takenOver := newDyingServer(t, fake.Config{}, point, 1)
			v := h.Create("papi")
			task := h.Start("papi", "echo one\necho two\nlisten\nask tabs?\nwait gate\necho three\ndone well")
			reply, err := sendMessage(h, "hi", "")
			require.NoError(t, err)
			require.Equal(t, textSent, reply)
			q, _, err := h.AnswerQuestion(h.Context(), service.AnswerQuestionRequest{ID: h.WaitQuestion(task.ID).ID, Answer: "spaces"})
			require.NoError(t, err)
			require.Equal(t, fleet.QuestionAnswered, q.Status)
			if point == reconcile.FaultInterruptBefore || point == reconcile.FaultInterruptAfter {
				<-h.FakePlace.Reached("gate")
				stopped, _, _, err := h.StopTask(h.Context(), "papi", "")
				require.NoError(t, err)
				require.Equal(t, fleet.TaskStopped, stopped.Status)
			} else {
				h.FakePlace.Release("gate")
				ended := h.WaitTask(task.ID)
				require.Equal(t, fleet.TaskCompleted, ended.Status, ended.Reason)
				require.Equal(t, "well", ended.Summary)
				require.Equal(t, "onetwohianswer: spacesthree", h.Output(task.ID))
			}
			require.Equal(t, 1, h.FakePlace.RunCount(task.ID))
			require.Equal(t, []string{"hi"}, h.FakePlace.Messages(task.ID))
			h.MustStop("papi")
			_, _, err = h.StartAgent(h.Context(), "papi", "")
			require.NoError(t, err)
			require.Len(t, h.FakePlace.Workspaces(), 1)
			deleted, _, err := h.DeleteAgent(h.Context(), "papi", false, "")
			require.NoError(t, err)
			require.Equal(t, v.UID, deleted.UID)
			require.Empty(t, h.FakePlace.Workspaces())
			<-takenOver
		})
	}
}

// TestPanics lets the first work at each fault point panic. It checks that the work goes on with the next try, and that nothing happens
// twice.
func TestPanics(t *testing.T) {
	t.Parallel()
	var panicked sync.Map
	h := servicetest.NewWithPapi(t, checksWorld, func(c *state.Config) {
		c.LeaseTTL = time.Second
		c.Fault = func(p string) {
			if _, again := panicked.LoadOrStore(p, true); !again {
				panic("at " + p)
			}
		}
	})
	task := h.WaitTask(startTaskWithChecks(h, "papi", "echo one\ndone", 0, "echo fine").ID)
	require.Equal(t, fleet.TaskCompleted, task.Status, task.Reason)
	require.Equal(t, "one", h.Output(task.ID))
	require.Equal(t, 1, h.FakePlace.RunCount(task.ID))
	h.MustDelete("papi")
	for _, p := range []string{reconcile.FaultProvisionAfter, reconcile.FaultDispatchAfter, reconcile.FaultFollowOutput, reconcile.FaultCheckAfter, reconcile.FaultFinishBefore, reconcile.FaultDeleteAfter} {
		_, reached := panicked.Load(p)
		require.True(t, reached, p)
	}
}
