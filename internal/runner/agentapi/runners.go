package agentapi

import (
	"context"
	"time"

	"fleet/internal/fleet"
)

// Config configures Runners. Both fields are needed.
type Config struct {
	Now  func() time.Time
	Wait func(context.Context, time.Duration) error // waits for something to change that tells nobody
}

// Runners has the runners of agents, and remembers their newest runs.
type Runners struct {
	config Config
	runs   runs
}

// New makes Runners.
func New(c Config) *Runners { return &Runners{config: c, runs: newRuns()} }

// Connect returns the runner of the agent. It asks nobody.
func (all *Runners) Connect(a fleet.Agent, find Find) fleet.Runner { return runner{all, a, find} }

// Knows reports whether the run was given to an agent, or followed, by these Runners.
func (all *Runners) Knows(taskID string) bool { return all.runs.known(taskID) }

// Waiting returns how many messages wait for the run's agent to come to rest.
func (all *Runners) Waiting(taskID string) int { return all.runs.of(taskID).waitingLetters() }

// runner runs the tasks of one agent.
type runner struct {
	all   *Runners
	agent fleet.Agent
	find  Find
}

// Answer implements fleet.Runner. The terminal of an agent does not tell what it asks.
func (w runner) Answer(context.Context, fleet.Run, fleet.Question) error {
	return fleet.Errorf(fleet.ReasonUnimplemented, "the agent %q cannot be given answers: Fleet reads it from its terminal", w.agent.Name)
}

// Changes implements fleet.Runner.
func (w runner) Changes(context.Context, fleet.Run) (*fleet.Changes, error) {
	return nil, w.noChanges()
}

// Patch implements fleet.Runner.
func (w runner) Patch(context.Context, fleet.Changes, string, int64, int) ([]byte, bool, error) {
	return nil, false, w.noChanges()
}

// Output implements fleet.Runner.
func (w runner) Output(context.Context, fleet.Run, int64, int) (fleet.OutputPage, error) {
	return fleet.OutputPage{}, fleet.Errorf(fleet.ReasonUnimplemented, "the agent %q has no raw output: Fleet reads it from its terminal", w.agent.Name)
}

func (w runner) noChanges() error {
	return fleet.Errorf(fleet.ReasonUnimplemented, "what tasks of the agent %q changed is not known: Fleet reads it from its terminal", w.agent.Name)
}
