package reconcile_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
	"fleet/internal/waittest"
)

// TestFailedAttempts checks which failures of a queued task are followed by another attempt.
func TestFailedAttempts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, script string
		max          int
		attempts     int // failed attempts after which the task waits
		status       fleet.TaskStatus
		reason       fleet.WaitReason
		remembers    bool // the agent still has a conversation after the first failure
	}{
		{"an overloaded API", "session s1\nfail-first 2 OVERLOADED\ndone well", 3, 2, fleet.TaskCompleted, fleet.WaitRetry, true},
		{"too many failures", "session s1\nfail-first 9 NETWORK\ndone well", 2, 1, fleet.TaskFailed, fleet.WaitRetry, true},
		{"a window that is used up does not count", "session s1\nfail-first 4 USAGE_WINDOW\ndone well", 1, 4, fleet.TaskCompleted, fleet.WaitUsageWindow, true},
		{"a long conversation is left", "session s1\nfail-first 1 CONTEXT_FULL\ndone well", 3, 1, fleet.TaskCompleted, fleet.WaitRetry, false},
		{"another attempt would not help", "session s1\nfail-first 1 AUTH\ndone well", 3, 0, fleet.TaskFailed, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var clockOffset atomic.Int64
			h := servicetest.NewWithPapi(t, fake.Config{}, shiftClock(&clockOffset))
			task := queueTask(h, "papi", c.script, fleet.QueueEntry{MaxAttempts: c.max})
			for n := range c.attempts {
				item := waitForRetry(h, task.ID, n+1)
				require.Equal(t, c.reason, item.Waits[0].Reason)
				require.False(t, item.Waits[0].Until.IsZero())
				require.Equal(t, "attempt "+string(rune('1'+n))+" failed: the model's API failed", item.Waits[0].Text)
				if n == 0 {
					h.WaitAgent("papi", func(v *fleet.AgentView) bool { return v.HasConversation == c.remembers })
				}
				clockOffset.Add(int64(time.Hour))
				h.Reconciler.SettingsChanged() // wakes the dispatcher
			}
			ended := h.WaitTask(task.ID)
			require.Equal(t, c.status, ended.Status)
			require.Equal(t, c.attempts, ended.Try)
		})
	}
}

// TestChecksAfterFailedAttempt checks that an attempt that failed for another reason uses up no retry of the checks.
func TestChecksAfterFailedAttempt(t *testing.T) {
	t.Parallel()
	var clockOffset atomic.Int64
	h := servicetest.NewWithPapi(t, checksWorld, shiftClock(&clockOffset))
	task, err := h.QueueTask(h.Context(), service.QueueTaskRequest{StartTaskRequest: service.StartTaskRequest{
		Agent: "papi", Description: "session s1\nfail-first 1 OVERLOADED\ndone", Checks: fleet.Checks{Commands: []string{"has made fix: change made a line"}, Retries: new(1)},
	}})
	require.NoError(t, err)
	waitForRetry(h, task.ID, 1)
	clockOffset.Add(int64(time.Hour))
	h.Reconciler.SettingsChanged() // wakes the dispatcher
	ended := h.WaitTask(task.ID)
	require.Equal(t, fleet.TaskCompleted, ended.Status, ended.Reason)
	require.Equal(t, 2, ended.Try)
}

// waitForRetry waits until the task is pending and has this number of failed attempts, and returns its entry. No other task may be
// pending.
func waitForRetry(h *servicetest.Harness, id string, attempts int) (item service.QueueItem) {
	h.T.Helper()
	waittest.Until(h.T, "nothing signals that the queue has changed", func() bool {
		l, err := h.ListQueue(h.Context(), service.ListQueueRequest{})
		require.NoError(h.T, err)
		if len(l.Items) == 1 && l.Items[0].ID == id && len(l.Items[0].Entry.Attempts) == attempts {
			item = l.Items[0]
			return true
		}
		return false
	})
	return item
}

// TestLostAttempts checks that a queued task gets another attempt after its workspace was stopped, and after its process was killed.
func TestLostAttempts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code   fleet.ReasonCode
		reason string
		lose   func(h *servicetest.Harness, id string)
	}{
		{fleet.CodePlaceLost, "workspace (was|is) stopped", func(h *servicetest.Harness, _ string) { h.FakePlace.StopWorkspace("papi") }},
		{fleet.CodeRunnerLost, "the agent's process died", func(h *servicetest.Harness, id string) { h.FakePlace.CrashRun(id) }},
	} {
		t.Run(string(c.code), func(t *testing.T) {
			t.Parallel()
			var clockOffset atomic.Int64
			h := servicetest.NewWithPapi(t, fake.Config{}, shiftClock(&clockOffset))
			task := queueTask(h, "papi", "session s1\nwait on\ndone well", fleet.QueueEntry{})
			<-h.FakePlace.Reached("on")
			c.lose(h, task.ID)
			item := waitForRetry(h, task.ID, 1)
			require.Equal(t, c.code, item.Entry.Attempts[0].Code)
			require.Regexp(t, c.reason, item.Entry.Attempts[0].Reason)
			h.FakePlace.Release("on")
			clockOffset.Add(int64(time.Hour))
			_, _, err := h.StartAgent(h.Context(), "papi", "")
			require.NoError(t, err)
			h.Reconciler.SettingsChanged() // wakes the dispatcher
			require.Equal(t, fleet.TaskCompleted, h.WaitTask(task.ID).Status)
		})
	}
}
