package reconcile_test

import (
	"context"
	"sync"
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

// TestConversationIsRestored checks that a task goes on in the right conversation although another task of the pool has had the agent
// meanwhile, with a conversation of its own.
func TestConversationIsRestored(t *testing.T) {
	t.Parallel()
	const work = "session s1\nchange a.txt x\ndone"
	for _, c := range []struct {
		name   string
		reuse  fleet.ReusePolicy
		script string // of the first task
		// continueConversation lets a run continue the conversation of the first task, and returns the id of the run.
		continueConversation func(h *servicetest.Harness, first *fleet.Task, queue func(string, ...fleet.Dependency) *fleet.Task) string
	}{
		{"another try", fleet.ReuseAny, "session s1\nfail-first 1 USAGE_WINDOW\ndone", func(h *servicetest.Harness, first *fleet.Task, _ func(string, ...fleet.Dependency) *fleet.Task) string {
			return first.ID + "-2"
		}},
		{"requested changes", fleet.ReuseAny, work, func(h *servicetest.Harness, first *fleet.Task, _ func(string, ...fleet.Dependency) *fleet.Task) string {
			r, _, err := h.ReviewTask(h.Context(), fleet.Review{TaskID: first.ID, Verdict: fleet.VerdictChanges, Text: "shorter"}, "")
			require.NoError(t, err)
			return r.NextTask
		}},
		{"a dependent task", fleet.ReuseSame, work, func(h *servicetest.Harness, first *fleet.Task, queue func(string, ...fleet.Dependency) *fleet.Task) string {
			return queue("done", fleet.Dependency{TaskID: first.ID}).ID
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			runs := map[string]fleet.Run{} // by id
			var clockOffset atomic.Int64
			h := servicetest.New(t, fake.Config{
				Traits: fleet.Traits{SupportsChanges: true},
				Before: func(_ context.Context, c fake.Call) error {
					if c.Method == fake.Dispatch {
						mu.Lock()
						defer mu.Unlock()
						runs[c.Run.TaskID] = *c.Run
					}
					return nil
				},
			}, shiftClock(&clockOffset))
			_, err := h.CreatePool(h.Context(), service.CreatePoolRequest{Pool: fleet.Pool{Name: "web", Spec: "a spec", Reuse: c.reuse, MaxAgents: 1, MaxIdle: 24 * time.Hour}, Project: "Setup"})
			require.NoError(t, err)
			queue := func(script string, after ...fleet.Dependency) *fleet.Task {
				task, err := h.QueueTask(h.Context(), service.QueueTaskRequest{StartTaskRequest: service.StartTaskRequest{Description: script}, Pool: "web", Entry: fleet.QueueEntry{Dependencies: after}})
				require.NoError(t, err)
				return task
			}
			first := queue(c.script)
			if c.script == work {
				first = h.WaitTask(first.ID)
			} else {
				first = &waitForRetry(h, first.ID, 1).Task
			}
			other := h.WaitTask(queue("session s2\ndone").ID)
			require.Equal(t, first.AgentUID, other.AgentUID)
			h.WaitAgent(first.AgentName, func(v *fleet.AgentView) bool { return v.Conversation == other.ID && v.SessionID == "s2" })

			id := c.continueConversation(h, first, queue)
			clockOffset.Add(int64(time.Hour))
			h.Reconciler.SettingsChanged() // wakes the dispatcher
			var run fleet.Run
			waittest.Until(t, "nothing signals that a run was dispatched", func() (ok bool) {
				mu.Lock()
				defer mu.Unlock()
				run, ok = runs[id]
				return ok
			})
			require.Equal(t, first.ID, run.Conversation)
			require.True(t, run.Continues)
		})
	}
}
