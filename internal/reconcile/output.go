package reconcile

import (
	"bytes"
	"fmt"

	"fleet/internal/fleet"
)

// withCheckedOutput returns the outcome of a run of the task, with an output only if the run is completed and the output matches the
// task's output schema. If the task has a schema and the output of a completed run does not match it, the outcome becomes a failure.
// The output comes from the agent, so it is checked here even if the agent's program has checked it.
func (w *worker) withCheckedOutput(t *fleet.Task, o fleet.Outcome) fleet.Outcome {
	output := bytes.ToValidUTF8(o.Output, []byte("\uFFFD")) // databases refuse anything else
	o.Output = nil
	if len(t.Options.OutputSchema) == 0 || o.Status != fleet.TaskCompleted {
		return o
	}
	why := ""
	check, err := w.cfg.Schema(t.Options.OutputSchema)
	switch {
	case err != nil: // it was compiled when the task started, perhaps by another version
		why = "its output_schema cannot be used: " + err.Error()
	case len(output) == 0:
		why = "its last message has no JSON object, which its output_schema demands"
	case len(output) > fleet.MaxTaskOutput:
		why = fmt.Sprintf("its output has %d bytes, and the limit is %d", len(output), fleet.MaxTaskOutput)
	default:
		problems := check(output)
		if len(problems) == 0 {
			o.Output = output
			return o
		}
		why = "its output does not match its output_schema: " + problems[0]
	}
	o.Status, o.Reason, o.ReasonCode = fleet.TaskFailed, why, fleet.CodeOutputInvalid
	return o
}
