//go:build cgo

package cagent

import (
	"context"
	"io"
	"path/filepath"

	"fleet/internal/fleet"
	"fleet/internal/runner"
)

// modelRunner runs the tasks of one agent. What a model without a repository cannot do, it refuses.
type modelRunner struct {
	runner.Agent
	name string
}

// Connect implements fleet.Place.
func (b *Place) Connect(a fleet.Agent) fleet.Runner {
	h := home(filepath.Join(b.config.Dir, "agents", runner.FileName(a.UID)))
	return modelRunner{b.host.Agent(a.Name, runner.Home(h), workspace{b, a, b.agent(a.UID)}), a.Name}
}

// Answer implements fleet.Runner.
func (r modelRunner) Answer(context.Context, fleet.Run, fleet.Question) error {
	return fleet.Errorf(fleet.ReasonUnimplemented, "the agent %q asks no questions", r.name)
}

// Send implements fleet.Runner.
func (modelRunner) Send(context.Context, fleet.Run, string, string) error {
	return fleet.Errorf(fleet.ReasonUnimplemented, "this agent accepts no messages while it works: wait for the end of its task, then start another one")
}

// Check implements fleet.Runner.
func (modelRunner) Check(context.Context, fleet.Run, fleet.Check) (fleet.CheckResult, error) {
	return fleet.CheckResult{}, fleet.Errorf(fleet.ReasonUnimplemented, "the agent is a model, and has no workspace for checks")
}

// Output implements fleet.Runner.
func (modelRunner) Output(context.Context, fleet.Run, int64, int) (fleet.OutputPage, error) {
	return fleet.OutputPage{}, fleet.Errorf(fleet.ReasonUnimplemented, "the agent is a model and has no raw output")
}

// Bundle implements fleet.Runner.
func (modelRunner) Bundle(context.Context, io.Writer) error {
	return fleet.Errorf(fleet.ReasonUnimplemented, "the agent has no repository that Fleet knows")
}

var errChanges = fleet.Errorf(fleet.ReasonUnimplemented, "the agent has no repository that Fleet knows: look at its files in its workspace")

// Changes implements fleet.Runner.
func (modelRunner) Changes(context.Context, fleet.Run) (*fleet.Changes, error) {
	return nil, errChanges
}

// Patch implements fleet.Runner.
func (modelRunner) Patch(context.Context, fleet.Changes, string, int64, int) ([]byte, bool, error) {
	return nil, false, errChanges
}
