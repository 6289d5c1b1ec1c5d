package agentapi

import (
	"context"
	"io"
	"time"

	"fleet/internal/fleet"
)

// Config configures Runners. Both fields are required.
type Config struct {
	Now  func() time.Time
	Wait func(context.Context, time.Duration) error // waits for the duration; returns the context's error if the context ends first
}

// Runners provides the runners of agents. It remembers the newest runs, which its runners share.
type Runners struct {
	config      Config
	transcripts transcripts
}

// New creates Runners.
func New(c Config) *Runners {
	return &Runners{config: c, transcripts: transcripts{byTask: map[string]*transcript{}}}
}

// Runner returns the runner of the agent. It makes no request.
func (runners *Runners) Runner(a fleet.Agent, find FindWorkspace) fleet.Runner {
	return runner{runners, a, find}
}

// Knows reports whether these Runners remember the run, because they have dispatched, followed, interrupted or messaged
// it.
func (runners *Runners) Knows(taskID string) bool { return runners.transcripts.has(taskID) }

// PendingMessages returns how many messages are waiting until the run's agent is idle.
func (runners *Runners) PendingMessages(taskID string) int {
	return runners.transcripts.getOrCreate(taskID).pendingCount()
}

// runner runs the tasks of one agent.
type runner struct {
	runners       *Runners
	agent         fleet.Agent
	findWorkspace FindWorkspace
}

// Answer implements fleet.Runner. It always fails, because Fleet cannot recognise questions in the agent's terminal.
func (w runner) Answer(context.Context, fleet.Run, fleet.Question) error {
	return w.unsupported("cannot send answers to agent %q")
}

// Changes implements fleet.Runner.
func (w runner) Changes(context.Context, fleet.Run) (*fleet.Changes, error) {
	return nil, w.unsupported(changesUnknown)
}

// Compare implements fleet.Runner.
func (w runner) Compare(context.Context, string, string) (*fleet.Changes, error) {
	return nil, w.unsupported(changesUnknown)
}

// Patch implements fleet.Runner.
func (w runner) Patch(context.Context, fleet.Changes, string, int64, int) ([]byte, bool, error) {
	return nil, false, w.unsupported(changesUnknown)
}

// Output implements fleet.Runner.
func (w runner) Output(context.Context, fleet.Run, int64, int) (fleet.OutputPage, error) {
	return fleet.OutputPage{}, w.unsupported("the agent %q has no raw output")
}

// Check implements fleet.Runner.
func (w runner) Check(context.Context, fleet.Run, fleet.Check) (fleet.CheckResult, error) {
	return fleet.CheckResult{}, w.unsupported("cannot check the work of agent %q")
}

// Bundle implements fleet.Runner.
func (w runner) Bundle(context.Context, io.Writer) error {
	return w.unsupported("cannot bundle the work of agent %q")
}

const changesUnknown = "the changes of agent %q are unknown"

// unsupported returns UNIMPLEMENTED. failure says what is impossible, with a verb of fmt for the agent's name.
func (w runner) unsupported(failure string) error {
	return fleet.Errorf(fleet.ReasonUnimplemented, failure+", because Fleet reaches it only through its terminal: use a template with fleet-runner", w.agent.Name)
}
