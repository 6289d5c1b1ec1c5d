package coder_test

import (
	"testing"

	"fleet/internal/fleet"
)

// TestTaskOptions checks that CheckOptions and Dispatch refuse an option that the agent does not support, and that CheckOptions
// refuses nothing before it knows what the agent supports.
func TestTaskOptions(t *testing.T) {
	t.Parallel()
	model := fleet.TaskOptions{Model: "m-1"}

	x, p := newFakePlace(t)
	x.NoError(p.CheckOptions(x.agent(), model), "no option may be refused before Coder has shown the workspace")
	_, err := p.Inspect(t.Context(), x.agent())
	x.NoError(err)
	requireError(x.T, p.CheckOptions(x.agent(), model), fleet.ReasonInvalidArgument, "which has AgentAPI and no fleet-runner, does not support model")
	r := x.newRun("work")
	r.Options = model
	x.ErrorContains(p.Connect(x.agent()).Dispatch(t.Context(), r), "does not support model")

	y := newFakeCoder(t)
	y.addRunner() // its driver supports no options
	p = y.newPlace()
	_, err = p.Inspect(t.Context(), y.agent())
	y.NoError(err)
	y.NoError(p.CheckOptions(y.agent(), model), "no option may be refused before the runner has reported its drivers")
	y.ErrorContains(p.Connect(y.agent()).Dispatch(t.Context(), r), "the runner of the agent does not support model")
	y.ErrorContains(p.CheckOptions(y.agent(), model), "the runner of the agent does not support model")
}
