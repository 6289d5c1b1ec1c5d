package agentapi

import (
	"context"
	"time"

	"fleet/internal/fleet"
)

// Config configures Runners. Both fields are required.
type Config struct {
	Now  func() time.Time
	Wait func(context.Context, time.Duration) error // waits between two polls
}

// Runners provides the runners of agents, and remembers their newest runs.
type Runners struct {
	config      Config
	transcripts transcripts
}

// New creates Runners.
func New(c Config) *Runners {
	return &Runners{config: c, transcripts: transcripts{byTask: map[string]*transcript{}}}
}

// Connect returns the runner of the agent. It makes no request.
func (runners *Runners) Connect(a fleet.Agent, find Find) fleet.Runner {
	return runner{runners, a, find}
}

// Knows reports whether these Runners remember the run, because they have dispatched, followed, interrupted or messaged
// it.
func (runners *Runners) Knows(taskID string) bool { return runners.transcripts.has(taskID) }

// WaitingMessages returns how many messages are waiting until the run's agent is idle.
func (runners *Runners) WaitingMessages(taskID string) int {
	return runners.transcripts.getOrCreate(taskID).pendingCount()
}

// runner runs the tasks of one agent.
type runner struct {
	runners *Runners
	agent   fleet.Agent
	find    Find
}

// Answer implements fleet.Runner. It always fails, because Fleet cannot recognise questions in the agent's terminal.
func (w runner) Answer(context.Context, fleet.Run, fleet.Question) error {
	return fleet.Errorf(fleet.ReasonUnimplemented, "cannot send answers to agent %q, because Fleet reaches it only through its terminal: use a template with fleet-runner", w.agent.Name)
}

// Changes implements fleet.Runner.
func (w runner) Changes(context.Context, fleet.Run) (*fleet.Changes, error) {
	return nil, w.noChanges()
}

// Compare implements fleet.Runner.
func (w runner) Compare(context.Context, string, string) (*fleet.Changes, error) {
	return nil, w.noChanges()
}

// Patch implements fleet.Runner.
func (w runner) Patch(context.Context, fleet.Changes, string, int64, int) ([]byte, bool, error) {
	return nil, false, w.noChanges()
}

// Output implements fleet.Runner.
func (w runner) Output(context.Context, fleet.Run, int64, int) (fleet.OutputPage, error) {
	return fleet.OutputPage{}, fleet.Errorf(fleet.ReasonUnimplemented, "the agent %q has no raw output, because Fleet reaches it only through its terminal: use a template with fleet-runner", w.agent.Name)
}

func (w runner) noChanges() error {
	return fleet.Errorf(fleet.ReasonUnimplemented, "the changes of agent %q are unknown, because Fleet reaches it only through its terminal: use a template with fleet-runner", w.agent.Name)
}
