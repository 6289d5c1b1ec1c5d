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

// TestStalled holds that a task counts as stalled while its run makes no progress, and only then.
func TestStalled(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, func(c *state.Config) { c.StallTimeout = 100 * time.Millisecond })
	h.Create("papi")
	task := h.Start("papi", "step Read: main.go\nlisten\necho Let me see.\nlisten\ndone well")
	v := h.Until("papi", (*fleet.AgentView).Stalled)
	require.Equal(t, fleet.StatusBusy, v.Status(), "whether to stop it is for people to decide")
	require.Equal(t, "Read: main.go", v.Task.LastStep)
	require.Equal(t, []string{"no progress for 100ms; the last step was: Read: main.go"}, h.Events(fleet.EventTaskStalled))
	require.WithinRange(t, v.Task.StalledAt, task.StartedAt, time.Now())

	h.Restart() // a new process knows of it
	v, err := h.ShowAgent(h.Context(), "papi")
	require.NoError(t, err)
	require.True(t, v.Stalled())

	_, err = message(h, "go on", "")
	require.NoError(t, err)
	v = h.Until("papi", func(v *fleet.AgentView) bool { return v.Stalled() && len(h.Events(fleet.EventTaskRecovered)) == 1 })
	require.Equal(t, "Let me see.", v.Task.LastStep)
	require.Len(t, h.Events(fleet.EventTaskStalled), 2)
	_, err = message(h, "go on", "")
	require.NoError(t, err)
	ended := h.End(task.ID)
	require.Equal(t, fleet.TaskCompleted, ended.Status)
	require.False(t, ended.Stalled())
	require.Empty(t, ended.LastStep)
}

// TestNotStalled holds that a tool may take its time.
func TestNotStalled(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, func(c *state.Config) { c.StallTimeout = 50 * time.Millisecond })
	h.Create("papi")
	h.Create("mami")
	task := h.Start("papi", "step Bash: go test\nopen 1\nlisten\nopen 0\nlisten\ndone")
	h.Start("mami", "listen\ndone")
	h.Until("mami", (*fleet.AgentView).Stalled)
	v, err := h.ShowAgent(h.Context(), "papi")
	require.NoError(t, err)
	require.False(t, v.Stalled())
	_, err = message(h, "go on", "")
	require.NoError(t, err)
	h.Until("papi", (*fleet.AgentView).Stalled)
	_, err = message(h, "go on", "")
	require.NoError(t, err)
	h.End(task.ID)
}

// TestAskingIsNotStalled holds that people may take their time with an answer, also when the server was restarted meanwhile.
func TestAskingIsNotStalled(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, func(c *state.Config) { c.StallTimeout = 50 * time.Millisecond })
	h.Create("papi")
	h.Create("mami")
	task := h.Start("papi", "ask tabs?\nlisten\ndone")
	q := h.Asked(task.ID)
	h.Restart()
	h.Start("mami", "listen\ndone")
	h.Until("mami", (*fleet.AgentView).Stalled)
	v, err := h.ShowAgent(h.Context(), "papi")
	require.NoError(t, err)
	require.False(t, v.Stalled())
	_, _, err = h.AnswerQuestion(h.Context(), service.AnswerQuestionRequest{ID: q.ID, Answer: "tabs"})
	require.NoError(t, err)
	h.Until("papi", (*fleet.AgentView).Stalled)
	_, err = message(h, "go on", "")
	require.NoError(t, err)
	h.End(task.ID)
}
