package coder

import (
	"context"
	"io"

	"fleet/internal/fleet"
	"fleet/internal/runner/agentapi"
)

// runner runs the tasks of one agent, through fleet-runner or, in a workspace without one, through AgentAPI.
type runner struct {
	place *Place
	agent fleet.Agent
}

// Connect implements fleet.Place.
func (b *Place) Connect(a fleet.Agent) fleet.Runner { return runner{b, a} }

// find returns the runner of the agent's workspace. It returns AGENT_OFFLINE if the workspace does not exist or is not
// started.
func (w runner) find(ctx context.Context) (fleet.Runner, error) {
	at, err := w.place.find(ctx, w.agent)
	if err != nil {
		return nil, err
	}
	return w.connect(at)
}

// call calls do with the agent's runner. If Coder has shown the workspace a moment ago, it is not requested again. If the
// runner then cannot be reached, call requests the workspace, which may have been stopped, and calls do once more. All
// methods of runners can be repeated.
func (w runner) call(ctx context.Context, do func(fleet.Runner) error) error {
	if at := w.place.recently(ctx, w.agent); at != nil {
		next, err := w.connect(at)
		if err == nil {
			err = do(next)
		}
		if reason := fleet.ReasonOf(err); ctx.Err() != nil || reason != fleet.ReasonBackendUnavailable && reason != fleet.ReasonAgentOffline {
			return err
		}
		w.place.recent.forget(at.ws.ID)
	}
	next, err := w.find(ctx)
	if err != nil {
		return err
	}
	return do(next)
}

// connect returns the runner of the workspace; at is nil if the agent has none.
func (w runner) connect(at *place) (fleet.Runner, error) {
	if at == nil || at.hasRunner() || at.hasNoApp() {
		return w.place.remote(w.agent, at)
	}
	return w.screen(at), nil
}

// screen returns the runner that uses AgentAPI. at is the workspace if the caller has just read it, else nil.
func (w runner) screen(at *place) fleet.Runner {
	return w.place.screens.Connect(w.agent, func(ctx context.Context) (agentapi.Workspace, error) {
		there := at
		if at = nil; there == nil {
			var err error
			if there, err = w.place.find(ctx, w.agent); err != nil || there == nil {
				return nil, err
			}
		}
		return screen{w.place, w.agent, there}, nil
	})
}

// Dispatch implements fleet.Runner.
func (w runner) Dispatch(ctx context.Context, r fleet.Run) error {
	return w.call(ctx, func(next fleet.Runner) error { return next.Dispatch(ctx, r) })
}

// Follow implements fleet.Runner. A run that was started through AgentAPI is followed through AgentAPI, because only
// these runners have its output so far.
func (w runner) Follow(ctx context.Context, r fleet.Run, cursor string, sink func(fleet.Output) error) (fleet.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return fleet.Outcome{}, err
	}
	from, known := isRemote(cursor)
	if !known && w.place.screens.Knows(r.TaskID) {
		return w.screen(nil).Follow(ctx, r, cursor, sink)
	}
	at, err := w.place.recently(ctx, w.agent), error(nil) // the follower requests the workspace when its runner does not answer
	if at == nil {
		at, err = w.place.find(ctx, w.agent)
	}
	if err != nil {
		return fleet.Outcome{}, err
	}
	switch {
	case at == nil:
		return failed("its workspace was deleted"), nil
	case at.hasRunner(), known && at.hasNoApp():
		if !known {
			from = ""
		}
		f := &follower{b: w.place, agent: w.agent, run: r, sink: sink, at: at}
		return f.follow(ctx, from)
	case known:
		return failed(withoutRunner), nil
	}
	return w.screen(at).Follow(ctx, r, cursor, sink)
}

// Interrupt implements fleet.Runner. Only a workspace that does not run has certainly no runs: an agent that cannot be
// reached was not interrupted.
func (w runner) Interrupt(ctx context.Context, r fleet.Run, kill bool) error {
	at, err := w.place.find(ctx, w.agent)
	if err != nil || at == nil {
		return err
	}
	if _, ended := w.place.ended(at); ended {
		return nil
	}
	next, err := w.connect(at)
	if err == nil {
		err = next.Interrupt(ctx, r, kill)
	}
	if fleet.ReasonOf(err) == fleet.ReasonAgentOffline {
		return unavailable("%s", fleet.PublicMessage(err)).WithCause(err)
	}
	return err
}

// Send implements fleet.Runner.
func (w runner) Send(ctx context.Context, r fleet.Run, id, text string) error {
	if w.place.screens.Knows(r.TaskID) {
		return w.screen(nil).Send(ctx, r, id, text)
	}
	next, err := w.find(ctx)
	if err != nil {
		return err
	}
	return next.Send(ctx, r, id, text)
}

// Answer implements fleet.Runner.
func (w runner) Answer(ctx context.Context, r fleet.Run, q fleet.Question) error {
	return w.call(ctx, func(next fleet.Runner) error { return next.Answer(ctx, r, q) })
}

// Changes implements fleet.Runner.
func (w runner) Changes(ctx context.Context, r fleet.Run) (changes *fleet.Changes, err error) {
	err = w.call(ctx, func(next fleet.Runner) (err error) {
		changes, err = next.Changes(ctx, r)
		return err
	})
	return changes, err
}

// Patch implements fleet.Runner.
func (w runner) Patch(ctx context.Context, c fleet.Changes, path string, offset int64, limit int) ([]byte, bool, error) {
	at, err := w.place.find(ctx, w.agent)
	switch {
	case err != nil:
		return nil, false, err
	case at == nil:
		return nil, false, fleet.Errorf(fleet.ReasonChangesNotFound, "the changes of the agent %q were deleted with its workspace", w.agent.Name)
	case !at.hasRunner() && !at.hasNoApp():
		return w.screen(at).Patch(ctx, c, path, offset, limit)
	}
	next, err := w.place.remote(w.agent, at)
	if err != nil {
		return nil, false, err
	}
	return next.Patch(ctx, c, path, offset, limit)
}

// Output implements fleet.Runner.
func (w runner) Output(ctx context.Context, r fleet.Run, offset int64, limit int) (page fleet.OutputPage, err error) {
	err = w.call(ctx, func(next fleet.Runner) (err error) {
		page, err = next.Output(ctx, r, offset, limit)
		return err
	})
	return page, err
}

// Check implements fleet.Runner.
func (w runner) Check(ctx context.Context, r fleet.Run, c fleet.Check) (result fleet.CheckResult, err error) {
	err = w.call(ctx, func(next fleet.Runner) (err error) {
		result, err = next.Check(ctx, r, c)
		return err
	})
	return result, err
}

// Bundle implements fleet.Runner.
func (w runner) Bundle(ctx context.Context, to io.Writer) error {
	next, err := w.find(ctx)
	if err != nil {
		return err
	}
	return next.Bundle(ctx, to)
}
