package reconcile_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// TestStalled checks that a task is stalled while its run makes no progress, and recovers with the next output.
func TestStalled(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{}, func(c *state.Config) { c.StallTimeout = 100 * time.Millisecond })
	task := h.Start("papi", "step Read: main.go\nlisten\necho Let me see.\nlisten\ndone well")
	stalledAfter := func(step string) func(*fleet.AgentView) bool { // on a busy machine, the task can also stall before its first step
		return func(v *fleet.AgentView) bool { return v.Stalled() && v.Task.LastStep == step }
	}
	v := h.WaitAgent("papi", stalledAfter("Read: main.go"))
	require.Equal(t, fleet.StatusBusy, v.Status(), "Fleet must not stop a stalled task by itself")
	stalledEvents, recoveries := h.Events(fleet.EventTaskStalled), len(h.Events(fleet.EventTaskRecovered))
	require.Equal(t, "no progress for 100ms; the last step was: Read: main.go", stalledEvents[len(stalledEvents)-1])
	require.WithinRange(t, v.Task.StalledAt, task.StartedAt, time.Now())

	h.Restart() // a new process reads the stall from the store
	v, err := h.ShowAgent(h.Context(), "papi")
	require.NoError(t, err)
	require.True(t, v.Stalled())

	_, err = sendMessage(h, "go on", "")
	require.NoError(t, err)
	h.WaitAgent("papi", stalledAfter("Let me see."))
	require.Greater(t, len(h.Events(fleet.EventTaskRecovered)), recoveries)
	require.Greater(t, len(h.Events(fleet.EventTaskStalled)), len(stalledEvents))
	_, err = sendMessage(h, "go on", "")
	require.NoError(t, err)
	ended := h.WaitTask(task.ID)
	require.Equal(t, fleet.TaskCompleted, ended.Status)
	require.False(t, ended.Stalled())
	require.Empty(t, ended.LastStep)
}

// TestNotStalled checks that a task does not stall while a tool of its agent is running.
func TestNotStalled(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{}, func(c *state.Config) { c.StallTimeout = 50 * time.Millisecond })
	h.Create("mami")
	task := h.Start("papi", "open 1\nstep Bash: go test\nlisten\nopen 0\nlisten\ndone")
	h.WaitAgent("papi", func(v *fleet.AgentView) bool { // on a busy machine, the task can stall before its tool begins
		return len(h.TaskEvents(task.ID, fleet.EventTaskStep)) == 1 && !v.Stalled()
	})
	h.Start("mami", "listen\ndone")
	h.WaitAgent("mami", (*fleet.AgentView).Stalled)
	v, err := h.ShowAgent(h.Context(), "papi")
	require.NoError(t, err)
	require.False(t, v.Stalled())
	_, err = sendMessage(h, "go on", "")
	require.NoError(t, err)
	h.WaitAgent("papi", (*fleet.AgentView).Stalled)
	_, err = sendMessage(h, "go on", "")
	require.NoError(t, err)
	h.WaitTask(task.ID)
}

// TestAskingIsNotStalled checks that a task does not stall while it waits for an answer, even after a restart of the
// server.
func TestAskingIsNotStalled(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{}, func(c *state.Config) { c.StallTimeout = 50 * time.Millisecond })
	h.Create("mami")
	task := h.Start("papi", "ask tabs?\nlisten\ndone")
	q := h.WaitQuestion(task.ID)
	h.WaitAgent("papi", func(v *fleet.AgentView) bool { return !v.Stalled() }) // on a busy machine, it can stall before it asks
	h.Restart()
	h.Start("mami", "listen\ndone")
	h.WaitAgent("mami", (*fleet.AgentView).Stalled)
	v, err := h.ShowAgent(h.Context(), "papi")
	require.NoError(t, err)
	require.False(t, v.Stalled())
	_, _, err = h.AnswerQuestion(h.Context(), service.AnswerQuestionRequest{ID: q.ID, Answer: "tabs"})
	require.NoError(t, err)
	h.WaitAgent("papi", (*fleet.AgentView).Stalled)
	_, err = sendMessage(h, "go on", "")
	require.NoError(t, err)
	h.WaitTask(task.ID)
}

// TestRetriesStall checks that a task is stalled while its run only repeats requests to its model. The program reports these
// requests as output, but they are not progress.
func TestRetriesStall(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{}, func(c *state.Config) { c.StallTimeout = 100 * time.Millisecond })
	const retryLine = `data {"type":"retry","name":"again","retry":{"attempt":1,"status":529}}` + "\n"
	task := h.Start("papi", "open 1\n"+retryLine+"wait first\n"+retryLine+"wait second\necho It works.\nwait third\ndone well")
	waitForSteps := func(n int) {
		t.Helper()
		h.WaitAgent("papi", func(*fleet.AgentView) bool { return len(h.TaskEvents(task.ID, fleet.EventTaskStep)) == n })
	}
	waitForSteps(1) // on a busy machine, the task can stall before its first output, which ends that stall
	h.WaitAgent("papi", func(v *fleet.AgentView) bool { return v.Stalled() && v.Task.LastStep == "retry again" })
	stalledEvents, recoveries := h.Events(fleet.EventTaskStalled), len(h.Events(fleet.EventTaskRecovered))
	require.Equal(t, "its requests to the model fail again and again; the last step was: retry again", stalledEvents[len(stalledEvents)-1])
	h.FakePlace.Release("first")
	waitForSteps(2)
	require.Len(t, h.Events(fleet.EventTaskRecovered), recoveries, "another retry must not count as progress")
	h.FakePlace.Release("second")
	h.WaitAgent("papi", func(v *fleet.AgentView) bool { return !v.Stalled() })
	h.FakePlace.Release("third")
	h.WaitTask(task.ID)
}
