//go:build cgo

package cagent

import (
	"context"

	"fleet/internal/fleet"
	"fleet/internal/runner"
)

// inProcess runs the tasks of one agent in this process.
type inProcess struct {
	place *Place
	agent fleet.Agent
}

// Connect implements fleet.Place.
func (b *Place) Connect(a fleet.Agent) fleet.Runner {
	in := inProcess{b, a}
	if x := b.agent(a.UID); x != nil && x.own {
		return ownProcess{in, x, b.host.Agent(a.Name, runner.Home(x.home), workspace{b, a, x})}
	}
	return in
}

// ownProcess runs the tasks of one agent in their own processes. The methods that it does not define are inProcess's.
type ownProcess struct {
	inProcess
	member *member
	runs   runner.Agent
}

// before reports whether the run was executed in the server's process, by an earlier version of Fleet. inProcess can
// read such a run.
func (w ownProcess) before(r fleet.Run) bool { return w.member.runDir(r.TaskID).exists("run.json") }

// Dispatch implements fleet.Runner.
func (w ownProcess) Dispatch(ctx context.Context, r fleet.Run) error {
	if w.before(r) {
		return ctx.Err()
	}
	return w.runs.Dispatch(ctx, r)
}

// Follow implements fleet.Runner.
func (w ownProcess) Follow(ctx context.Context, r fleet.Run, cursor string, sink func(fleet.Output) error) (fleet.Outcome, error) {
	if w.before(r) {
		return w.inProcess.Follow(ctx, r, cursor, sink)
	}
	return w.runs.Follow(ctx, r, cursor, sink)
}

// Interrupt implements fleet.Runner.
func (w ownProcess) Interrupt(ctx context.Context, r fleet.Run, kill bool) error {
	return w.runs.Interrupt(ctx, r, kill)
}
