package coder_test

import (
	"testing"

	"fleet/internal/fleet"
)

// TestTaskOptions checks what is known about the options of tasks before a task starts.
func TestTaskOptions(t *testing.T) {
	t.Parallel()
	model := fleet.TaskOptions{Model: "m-1"}

	x := newWorld(t)
	b := x.backend()
	x.NoError(b.CheckOptions(x.agent(), model), "nothing is known yet")
	_, err := b.Inspect(t.Context(), x.agent())
	x.NoError(err)
	err = b.CheckOptions(x.agent(), model)
	x.Equal(fleet.ReasonInvalidArgument, fleet.ReasonOf(err))
	x.ErrorContains(err, "which has AgentAPI and no fleet-runner, does not support model")
	r := x.run("work")
	r.Options = model
	x.ErrorContains(b.Connect(x.agent()).Dispatch(t.Context(), r), "does not support model")

	y := newWorld(t)
	y.withRunner() // its driver supports no options
	b = y.backend()
	_, err = b.Inspect(t.Context(), y.agent())
	y.NoError(err)
	y.NoError(b.CheckOptions(y.agent(), model), "the runner has not said yet what it supports")
	y.ErrorContains(b.Connect(y.agent()).Dispatch(t.Context(), r), "the runner of the agent does not support model")
	y.ErrorContains(b.CheckOptions(y.agent(), model), "the runner of the agent does not support model")
}
