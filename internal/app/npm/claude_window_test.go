package npm

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// maxAfterRefusal is how long a run may continue after the subscription has refused one of its requests.
const maxAfterRefusal = 5 * time.Second

// TestClaudeWindows checks the usage windows that Fleet reports for a subscription, and that the run of a task ends soon when a window is used up.
func TestClaudeWindows(t *testing.T) {
	installClaude(t) // may skip the test
	c := newClaudeFleetOn(t, newSubscriptionModel(t), "", role{"name": "coder", "model": pricedModel, "default": true, "allowed_tools": []string{"Bash", "Task"}})
	c.create(t, "papi", "coder")

	require.Equal(t, "Hello", c.runTask(t, "papi", "Greet.", "model: say Hello").GetSummary())
	windows := c.credential(t).GetWindows()
	require.Len(t, windows, 2)
	require.Equal(t, []string{"five_hour", "seven_day"}, []string{windows[0].GetName(), windows[1].GetName()})
	require.InDelta(t, 0.41, windows[0].GetUsed(), 1e-9)
	require.InDelta(t, 0.2, windows[1].GetUsed(), 1e-9)
	require.Equal(t, c.subscription.startedAt.Add(2*time.Hour).Unix(), windows[0].GetResetsAt().AsTime().Unix())

	require.Equal(t, "Paid", c.runTask(t, "papi", "Pay.", "model: extra Paid").GetSummary())
	require.Equal(t, "ok", c.credential(t).GetState(), "the subscription must still be usable")

	task := c.runTask(t, "papi", "Start.", "model: limit now")
	resets, refused := c.subscription.takeRefused()
	require.Equal(t, "USAGE_WINDOW", task.GetReasonCode(), task.GetReason())
	require.Equal(t, resets, task.GetRetryAt().AsTime().Local())
	require.Len(t, refused, 1)
	require.Equal(t, "used_up", c.credential(t).GetState())
	_, err := c.api.StartAgentTask(t.Context(), &fleetv1.StartAgentTaskRequest{AgentName: "papi", TaskDescription: "Start again."})
	require.ErrorContains(t, err, `the five hour window of the credential "local/code" is used up until`)
	time.Sleep(time.Until(resets))

	// In these tasks another part still works when the subscription refuses the request of a subagent.
	const inner = `model: tool Bash {\"command\":\"until [ -e busy ]; do sleep 0.05; done; rm busy\"}\nmodel: limit `
	const busy = `{"command":"touch busy; exec tail -f /dev/null"}`
	subagent := func(background bool, prompt string) string {
		return fmt.Sprintf(`model: tool Task {"description":"look","subagent_type":"general-purpose","run_in_background":%t,"prompt":"%s"}`, background, prompt)
	}
	for name, script := range map[string][]string{
		"background": {subagent(true, inner+"behind"), `model: tool Bash ` + busy, "model: say Done"},
		"foreground": {subagent(true, `model: tool Bash `+strings.ReplaceAll(busy, `"`, `\"`)), subagent(false, inner+"before"), "model: say Done"},
	} {
		t.Run(name, func(t *testing.T) {
			id := c.queue(t, &fleetv1.QueueTaskRequest{AgentName: "papi", TaskDescription: strings.Join(append([]string{"Work in the " + name + "."}, script...), "\n")})
			c.waitForEvent(t, id, func(e *fleetv1.Event) bool { return e.GetType() == fleetv1.Event_task_queued })
			now := time.Now()
			_, refused := c.subscription.takeRefused()
			require.NotEmpty(t, refused)
			require.LessOrEqual(t, len(refused), 2, "besides the request of the subagent, only one request of the main loop may be refused")
			t.Logf("pending %v after the refusal", now.Sub(refused[0].at))
			require.Less(t, now.Sub(refused[0].at), maxAfterRefusal)
			require.Empty(t, c.processes("papi"))
			waits := c.waitReasons(t)
			require.Len(t, waits, 1)
			require.Equal(t, []string{"usage_window"}, slices.Compact(waits[0]))

			task := c.wait(t, id)
			require.Equal(t, fleetv1.Task_completed, task.GetStatus(), task.GetReason())
			_, refused = c.subscription.takeRefused()
			require.Empty(t, refused)
		})
	}
}

// TestClaudeUsedUp lets four agents find at the same time that the window of their subscription is used up. None may send another request before the
// window ends. Then all tasks must complete, although each may be attempted only once.
func TestClaudeUsedUp(t *testing.T) {
	installClaude(t) // may skip the test
	const agents, tasks = 4, 8
	c := newClaudeFleetOn(t, newSubscriptionModel(t), "", role{"name": "coder", "model": pricedModel, "default": true, "allowed_tools": []string{"Bash"}})
	_, err := c.api.CreatePool(t.Context(), &fleetv1.CreatePoolRequest{Name: "crew", Project: "code", MaxAgents: new(int32(agents))})
	require.NoError(t, err)
	gate := c.home.path("gate")
	wait := fmt.Sprintf(`model: tool Bash {"command":"until [ -e %s ]; do sleep 0.05; done"}`, gate)
	var ids []string
	for range tasks {
		ids = append(ids, c.queue(t, &fleetv1.QueueTaskRequest{Pool: "crew", TaskDescription: wait + "\nmodel: limit Done"}))
	}
	require.Eventually(t, func() bool { return len(c.requestsWith(wait)) == agents }, defaultTimeout, 10*time.Millisecond, "the first tasks do not start")
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	require.Eventually(t, func() bool { return len(c.waitReasons(t)) == tasks }, defaultTimeout, 10*time.Millisecond, "the tasks do not wait")
	resets, refused := c.subscription.takeRefused()
	require.Len(t, refused, agents, "the subscription must have refused one request of each started run")
	for _, reasons := range c.waitReasons(t) {
		require.Contains(t, reasons, "usage_window")
	}
	require.Equal(t, "used_up", c.credential(t).GetState())
	require.Less(t, time.Now(), resets, "the test was too slow")
	for _, id := range ids {
		task := c.wait(t, id)
		require.Equal(t, fleetv1.Task_completed, task.GetStatus(), task.GetReason())
	}
	_, refused = c.subscription.takeRefused()
	require.Empty(t, refused, "a task must not start before the window ends")
}

// queue queues the task with at most one attempt, and returns its id.
func (c *claudeFleet) queue(t *testing.T, r *fleetv1.QueueTaskRequest) (id string) {
	t.Helper()
	r.MaxAttempts = new(int32(1))
	a, err := c.api.QueueTask(t.Context(), r)
	require.NoError(t, err)
	return a.GetTask().GetId()
}

// waitReasons returns, for each task in the queue, the reasons for which it waits.
func (c *claudeFleet) waitReasons(t *testing.T) (all [][]string) {
	t.Helper()
	l, err := c.api.ListQueue(t.Context(), &fleetv1.ListQueueRequest{})
	require.NoError(t, err)
	for _, q := range l.GetTasks() {
		var reasons []string
		for _, w := range q.GetQueue().GetWaits() {
			reasons = append(reasons, w.GetReason())
		}
		all = append(all, reasons)
	}
	return all
}

// credential returns the project's credential, which must be the only one.
func (c *claudeFleet) credential(t *testing.T) *fleetv1.Credential {
	t.Helper()
	l, err := c.api.ListCredentials(t.Context(), &fleetv1.ListCredentialsRequest{})
	require.NoError(t, err)
	require.Len(t, l.GetCredentials(), 1)
	require.Equal(t, "local/code", l.GetCredentials()[0].GetName())
	return l.GetCredentials()[0]
}
