package service_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/state"
)

// TestStalled holds that a task counts as stalled while its run makes no progress, and only then.
func TestStalled(t *testing.T) {
	t.Parallel()
	h := newHarness(t, fake.Config{}, func(c *state.Config) { c.StallTimeout = 100 * time.Millisecond })
	h.create("papi")
	task := h.start("papi", "step Read: main.go\nlisten\necho Let me see.\nlisten\ndone well")
	v := h.until("papi", (*fleet.AgentView).Stalled)
	require.Equal(t, fleet.StatusBusy, v.Status(), "whether to stop it is for people to decide")
	require.Equal(t, "Read: main.go", v.Task.LastStep)
	require.Equal(t, []string{"no progress for 100ms; the last step was: Read: main.go"}, h.events(fleet.EventTaskStalled))
	require.WithinRange(t, v.Task.StalledAt, task.StartedAt, time.Now())

	h.restart() // a new process knows of it
	v, err := h.ShowAgent(h.ctx(), "papi")
	require.NoError(t, err)
	require.True(t, v.Stalled())

	_, err = h.message("go on", "")
	require.NoError(t, err)
	v = h.until("papi", func(v *fleet.AgentView) bool { return v.Stalled() && len(h.events(fleet.EventTaskRecovered)) == 1 })
	require.Equal(t, "Let me see.", v.Task.LastStep)
	require.Len(t, h.events(fleet.EventTaskStalled), 2)
	_, err = h.message("go on", "")
	require.NoError(t, err)
	ended := h.end(task.ID)
	require.Equal(t, fleet.TaskCompleted, ended.Status)
	require.False(t, ended.Stalled())
	require.Empty(t, ended.LastStep)
}

// TestNotStalled holds that a tool may take its time.
func TestNotStalled(t *testing.T) {
	t.Parallel()
	h := newHarness(t, fake.Config{}, func(c *state.Config) { c.StallTimeout = 50 * time.Millisecond })
	h.create("papi")
	h.create("mami")
	task := h.start("papi", "step Bash: go test\nopen 1\nlisten\nopen 0\nlisten\ndone")
	h.start("mami", "listen\ndone")
	h.until("mami", (*fleet.AgentView).Stalled)
	v, err := h.ShowAgent(h.ctx(), "papi")
	require.NoError(t, err)
	require.False(t, v.Stalled())
	_, err = h.message("go on", "")
	require.NoError(t, err)
	h.until("papi", (*fleet.AgentView).Stalled)
	_, err = h.message("go on", "")
	require.NoError(t, err)
	h.end(task.ID)
}

// TestAskingIsNotStalled holds that people may take their time with an answer, also when the server was restarted meanwhile.
func TestAskingIsNotStalled(t *testing.T) {
	t.Parallel()
	h := newHarness(t, fake.Config{}, func(c *state.Config) { c.StallTimeout = 50 * time.Millisecond })
	h.create("papi")
	h.create("mami")
	task := h.start("papi", "ask tabs?\nlisten\ndone")
	q := h.asked(task.ID)
	h.restart()
	h.start("mami", "listen\ndone")
	h.until("mami", (*fleet.AgentView).Stalled)
	v, err := h.ShowAgent(h.ctx(), "papi")
	require.NoError(t, err)
	require.False(t, v.Stalled())
	_, _, err = h.AnswerQuestion(h.ctx(), service.AnswerQuestionRequest{ID: q.ID, Answer: "tabs"})
	require.NoError(t, err)
	h.until("papi", (*fleet.AgentView).Stalled)
	_, err = h.message("go on", "")
	require.NoError(t, err)
	h.end(task.ID)
}
