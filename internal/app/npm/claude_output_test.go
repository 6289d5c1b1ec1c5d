package npm

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestClaudeOutput checks the output of tasks with a schema. Claude Code has its own tool for such output.
func TestClaudeOutput(t *testing.T) {
	c := newClaudeFleet(t, role{"name": "coder", "model": pricedModel, "default": true}, role{"name": "reader", "model": pricedModel, "tools": []string{"Read"}})
	c.create(t, "papi", "coder")
	c.create(t, "mami", "reader")
	schema, err := structpb.NewStruct(map[string]any{
		"type": "object", "properties": map[string]any{"n": map[string]any{"type": "integer"}}, "required": []any{"n"},
	})
	require.NoError(t, err)
	runTask := func(agent, prompt string) *fleetv1.TaskDetail {
		r, err := c.api.StartAgentTask(t.Context(), &fleetv1.StartAgentTaskRequest{AgentName: agent, TaskDescription: prompt, OutputSchema: schema})
		require.NoError(t, err)
		return c.wait(t, r.GetTask().GetId())
	}
	for _, agent := range []string{"papi", "mami"} { // a list of tools must not remove the tool for the output
		task := runTask(agent, "Count for "+agent+".\n"+`model: tool StructuredOutput {"n":3}`)
		require.Equal(t, fleetv1.Task_completed, task.GetStatus(), task.GetReason())
		require.Equal(t, map[string]any{"n": 3.0}, task.GetOutput().AsMap())
	}
	require.Contains(t, c.requestsWith("Count for papi.")[0].toolNames(), "StructuredOutput")

	// Claude Code must ask for a second answer if the first does not match the schema.
	task := runTask("papi", "Count again.\n"+`model: tool StructuredOutput {"n":"three"}`+"\n"+`model: tool StructuredOutput {"n":4}`)
	require.Equal(t, fleetv1.Task_completed, task.GetStatus(), task.GetReason())
	require.Equal(t, map[string]any{"n": 4.0}, task.GetOutput().AsMap())

	task = runTask("papi", "Refuse to count.\nmodel: say No.")
	require.Equal(t, fleetv1.Task_failed, task.GetStatus())
	require.Equal(t, "OUTPUT_INVALID", task.GetReasonCode(), task.GetReason())
	require.Nil(t, task.GetOutput())

	again, err := c.api.RetryTask(t.Context(), &fleetv1.RetryTaskRequest{TaskId: task.GetId()})
	require.NoError(t, err)
	task = c.wait(t, again.GetTask().GetId())
	require.Equal(t, "OUTPUT_INVALID", task.GetReasonCode(), "the new task must have the schema: %s", task.GetReason())

	// The next task has no schema, although it continues the conversation.
	task = c.runTask(t, "papi", "Rest.", "model: say Zzz")
	require.Equal(t, fleetv1.Task_completed, task.GetStatus(), task.GetReason())
	require.Equal(t, "Zzz", task.GetSummary())
}
