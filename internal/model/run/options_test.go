//go:build cgo

package run_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/waittest"
)

// TestTaskOptions checks the options of single tasks.
func TestTaskOptions(t *testing.T) {
	t.Parallel()
	d := newFixture(t, fleet.AgentConfig{SystemPrompt: "You are careful.", Document: `
models:
  stub: {provider: anthropic, model: stub-large, base_url: "MODEL"}
  small: {provider: anthropic, model: stub-small, base_url: "MODEL"}
agents:
  root:
    model: stub
    instruction: You do as you are told.
    toolsets:
      - type: think
`}, nil)
	runTask := func(prompt string, o fleet.TaskOptions) fleet.Outcome {
		require.NoError(t, d.place.CheckOptions(d.agent, o))
		r := fleet.Run{TaskID: uuid.NewString(), Prompt: prompt, Timeout: waittest.Limit, Options: o}
		require.NoError(t, d.place.Connect(d.agent).Dispatch(t.Context(), r))
		_, outcome := d.waitForEnd(r)
		return outcome
	}
	o := runTask(`model: say {"n":3}`, fleet.TaskOptions{AppendSystemPrompt: "Be brief.", OutputSchema: []byte(`{"type":"object"}`)})
	require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
	require.JSONEq(t, `{"n":3}`, string(o.Output))
	q := d.model.Requests()[0]
	require.Equal(t, "stub-large", q.Model)
	for _, text := range []string{"You are careful.", "Be brief.", `{"type":"object"}`} {
		require.Contains(t, q.System, text)
	}

	o = runTask("model: tool think {\"thought\":\"x\"}\nmodel: tool think {\"thought\":\"y\"}\nmodel: say never", fleet.TaskOptions{MaxTurns: new(2)})
	require.Equal(t, fleet.TaskFailed, o.Status)
	require.Equal(t, fleet.CodeMaxTurns, o.ReasonCode, o.Reason)

	o = runTask("model: say small", fleet.TaskOptions{Model: "small"})
	require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
	q = d.lastRequest()
	require.Equal(t, "stub-small", q.Model)
	require.NotContains(t, q.System, "Be brief.", "options are those of one task")

	require.ErrorContains(t, d.place.CheckOptions(d.agent, fleet.TaskOptions{Effort: "low"}), "the driver cagent does not support effort")
	require.ErrorContains(t, d.place.CheckOptions(d.agent, fleet.TaskOptions{Model: "unheard-of"}), "give provider/model")
}
