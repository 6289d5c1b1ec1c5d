package reconcile_test

import (
	"fmt"
	"sync/atomic"
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

// TestUsageWindow lets the first tasks of eight agents find the usage window of their subscription used up. None of the other queued
// tasks may start before the window ends. Then all complete, although each may have only one attempt, because these failures do not
// count.
func TestUsageWindow(t *testing.T) {
	t.Parallel()
	var clockOffset atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(clockOffset.Load())) }
	h := servicetest.New(t, fake.Config{Credentials: map[string]string{"Setup": "max"}}, func(cfg *state.Config) { cfg.Now = now })
	agents := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for _, name := range agents {
		h.Create(name)
	}
	resetsAt := now().Add(time.Hour).UTC().Truncate(time.Second)
	var ids []string
	for i := range 400 {
		script := "done"
		if i < len(agents) {
			script = "wait gate\nsession s\nfail-first 1 USAGE_WINDOW\ndone"
		}
		ids = append(ids, queueTask(h, agents[i%len(agents)], script, fleet.QueueEntry{MaxAttempts: 1}).ID)
	}
	rejectedScript := fmt.Sprintf(`wait gate
data {"type":"limit","limit":{"window":"five_hour","utilization":1,"reached":true,"resets_at":%q}}
fail`, resetsAt.Format(time.RFC3339))
	_, err := h.StartTask(h.Context(), service.StartTaskRequest{Agent: h.Create("direct").Name, Description: rejectedScript})
	require.NoError(t, err)
	<-h.FakePlace.Called(fake.Dispatch, len(agents)+1)
	h.FakePlace.Release("gate")
	var waiting []service.QueueItem
	waittest.Until(t, "nothing signals that the queue and the credentials have changed", func() bool {
		l, err := h.ListQueue(h.Context(), service.ListQueueRequest{})
		require.NoError(t, err)
		waiting = l.Items
		all, err := h.ListCredentials(h.Context())
		require.NoError(t, err)
		return len(all) == 1 && all[0].StateAt(now()) == fleet.CredentialUsedUp && all[0].Running == 0 && l.Total == len(ids)
	})
	for _, item := range waiting {
		require.Contains(t, reasons(item.Waits), fleet.WaitUsageWindow, item.Waits)
	}
	_, err = h.StartTask(h.Context(), service.StartTaskRequest{Agent: "a", Description: "done"})
	require.Equal(t, fleet.ReasonCredentialUsedUp, fleet.ReasonOf(err), err)

	clockOffset.Store(int64(time.Hour + time.Minute))
	h.SetCredentials(nil) // wakes the dispatcher
	_, _, err = h.SetLabels(h.Context(), service.SetLabelsRequest{Agent: "a", Labels: fleet.Labels{"k": "v"}})
	require.NoError(t, err)
	attempts := 0
	for _, id := range ids {
		ended := h.WaitTask(id)
		require.Equal(t, fleet.TaskCompleted, ended.Status, ended.Reason)
		attempts += ended.Try
	}
	require.Equal(t, len(agents), attempts)

	// The event log says in which order the report and the starts were committed.
	windowReported, earlyStarts := false, 0
	require.NoError(t, h.Store.View(t.Context(), func(tx fleet.ReadTx) error {
		events, err := tx.Events(fleet.EventFilter{Types: []fleet.EventType{fleet.EventFleetChanged, fleet.EventTaskAssigned}}, fleet.EventWindow{Limit: 10_000})
		for _, e := range events {
			if e.Type == fleet.EventFleetChanged && e.Text == "the five hour window of the credential max is 100% used" {
				windowReported = true
			}
			if e.Type == fleet.EventTaskAssigned && windowReported && e.Time.Before(resetsAt) {
				earlyStarts++
			}
		}
		return err
	}))
	require.True(t, windowReported)
	require.Zero(t, earlyStarts, "tasks that started before the window ended")
}

// TestReleaseAfterUsageWindow checks that a task that has found a usage window used up starts again when the credential is released.
func TestReleaseAfterUsageWindow(t *testing.T) {
	t.Parallel()
	var clockOffset atomic.Int64
	h := servicetest.NewWithPapi(t, fake.Config{Credentials: map[string]string{"Setup": "max"}}, shiftClock(&clockOffset))
	task := queueTask(h, "papi", "session s\nfail-first 1 USAGE_WINDOW\ndone", fleet.QueueEntry{})
	item := waitForRetry(h, task.ID, 1)
	require.Less(t, item.Entry.RetryAt.Sub(item.Entry.Attempts[0].At), 20*time.Second)
	clockOffset.Store(int64(20 * time.Second))
	require.Equal(t, []fleet.WaitReason{fleet.WaitUsageWindow}, reasons(waits(h, task.ID)), "the window is used up")
	require.NoError(t, h.ReleaseCredential(servicetest.AsAdmin(t.Context()), "max"))
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(task.ID).Status)
}

// TestHeldCredential checks that tasks wait while the provider of the model refuses a key, and that a task that is started directly
// tries the key again.
func TestHeldCredential(t *testing.T) {
	t.Parallel()
	for _, code := range []fleet.ReasonCode{fleet.CodeAuth, fleet.CodeBilling} {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			var clockOffset atomic.Int64
			h := servicetest.NewWithPapi(t, fake.Config{Credentials: map[string]string{"Setup": "key"}}, shiftClock(&clockOffset))
			h.Create("sony")
			task := queueTask(h, "papi", "fail-first 1 "+string(code)+"\ndone", fleet.QueueEntry{MaxAttempts: 1})
			item := waitForRetry(h, task.ID, 1)
			require.Contains(t, reasons(item.Waits), fleet.WaitHeld)
			all, err := h.ListCredentials(h.Context())
			require.NoError(t, err)
			require.Equal(t, code, all[0].Hold.Code)
			require.Equal(t, task.ID, all[0].Hold.TaskID)

			clockOffset.Store(int64(time.Hour)) // after the time at which the task may be attempted again
			failed, err := h.StartTask(h.Context(), service.StartTaskRequest{Agent: "sony", Description: "fail-first 1 " + string(code)})
			require.NoError(t, err)
			require.Equal(t, fleet.TaskFailed, h.WaitTask(failed.ID).Status, "a task that was started directly does not wait")
			require.Equal(t, []fleet.WaitReason{fleet.WaitHeld}, reasons(waits(h, task.ID)), "the queued task still waits")

			_, err = h.StartTask(h.Context(), service.StartTaskRequest{Agent: "sony", Description: "done"})
			require.NoError(t, err)
			require.Equal(t, fleet.TaskCompleted, h.WaitTask(task.ID).Status)
		})
	}
}

func reasons(waits []fleet.Wait) (all []fleet.WaitReason) {
	for _, w := range waits {
		all = append(all, w.Reason)
	}
	return all
}
