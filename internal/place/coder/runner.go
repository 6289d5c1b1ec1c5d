package coder

import (
	"context"
	"io"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/runner/agentapi"
)

// runner runs the tasks of one agent, through fleet-runner or, in a workspace without one, through AgentAPI.
type runner struct {
	place *Place
	agent fleet.Agent
}

// Connect implements fleet.Place.
func (p *Place) Connect(a fleet.Agent) fleet.Runner { return runner{p, a} }

// connectNow requests the agent's workspace from Coder, and returns its runner. It returns AGENT_OFFLINE if the workspace
// does not exist or is not started. A runner for AgentAPI returns this error only when it is called.
func (r runner) connectNow(ctx context.Context) (fleet.Runner, error) {
	w, err := r.place.find(ctx, r.agent)
	if err != nil {
		return nil, err
	}
	return r.connect(w)
}

// call runs do with the agent's runner. If Coder has recently shown the workspace, call does not request the workspace again.
// If the runner then cannot be reached, call requests the workspace, which may have been stopped, and runs do once more. So
// do must be a call that can be repeated.
func (r runner) call(ctx context.Context, do func(fleet.Runner) error) error {
	if w := r.place.findRecent(ctx, r.agent); w != nil {
		next, err := r.connect(w)
		if err == nil {
			err = do(next)
		}
		if reason := fleet.ReasonOf(err); ctx.Err() != nil || reason != fleet.ReasonBackendUnavailable && reason != fleet.ReasonAgentOffline {
			return err
		}
		r.place.recent.forget(w.ws.ID)
	}
	next, err := r.connectNow(ctx)
	if err != nil {
		return err
	}
	return do(next)
}

// callRunner is runner.call for a method with a result.
func callRunner[T any](ctx context.Context, r runner, do func(fleet.Runner) (T, error)) (result T, err error) {
	err = r.call(ctx, func(next fleet.Runner) (err error) {
		result, err = do(next)
		return err
	})
	return result, err
}

// connect returns the runner of the workspace. w is nil if the agent has no workspace.
func (r runner) connect(w *workspace) (fleet.Runner, error) {
	if w == nil || w.hasRunner() || !w.hasApp() {
		return r.place.remoteRunner(r.agent, w)
	}
	return r.agentAPIRunner(w), nil
}

// agentAPIRunner returns the runner that uses AgentAPI. w is the workspace if the caller has just read it, else nil.
// The runner uses w for the first call only, and then requests the workspace again.
func (r runner) agentAPIRunner(w *workspace) fleet.Runner {
	return r.place.agentAPIRunners.Runner(r.agent, func(ctx context.Context) (agentapi.Workspace, error) {
		workspace := w
		if w = nil; workspace == nil {
			var err error
			if workspace, err = r.place.find(ctx, r.agent); err != nil || workspace == nil {
				return nil, err
			}
		}
		return agentAPIWorkspace{r.place, r.agent, workspace}, nil
	})
}

// Dispatch implements fleet.Runner.
func (r runner) Dispatch(ctx context.Context, run fleet.Run) error {
	return r.call(ctx, func(next fleet.Runner) error { return next.Dispatch(ctx, run) })
}

// Follow implements fleet.Runner. A run that was started through AgentAPI is followed through AgentAPI, because only
// AgentAPI's runners have its output so far.
func (r runner) Follow(ctx context.Context, run fleet.Run, cursor string, sink func(fleet.Output) error) (fleet.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return fleet.Outcome{}, err
	}
	runnerCursor, isRunnerCursor := strings.CutPrefix(cursor, runnerCursorPrefix)
	if !isRunnerCursor && r.place.agentAPIRunners.Knows(run.TaskID) {
		return r.agentAPIRunner(nil).Follow(ctx, run, cursor, sink)
	}
	w, err := r.place.findRecent(ctx, r.agent), error(nil) // if the runner does not answer, the follower requests the workspace
	if w == nil {
		w, err = r.place.find(ctx, r.agent)
	}
	if err != nil {
		return fleet.Outcome{}, err
	}
	switch {
	case w == nil:
		return lostOutcome("its workspace was deleted"), nil
	case w.hasRunner(), isRunnerCursor && !w.hasApp():
		if !isRunnerCursor {
			runnerCursor = ""
		}
		f := &follower{place: r.place, agent: r.agent, run: run, sink: sink, w: w}
		return f.follow(ctx, runnerCursor)
	case isRunnerCursor:
		return lostOutcome(reasonWithoutRunner), nil
	}
	return r.agentAPIRunner(w).Follow(ctx, run, cursor, sink)
}

// Interrupt implements fleet.Runner. It returns an error if the agent cannot be reached, because the run may continue. A
// workspace that was stopped or deleted has no runs.
func (r runner) Interrupt(ctx context.Context, run fleet.Run, kill bool) error {
	w, err := r.place.find(ctx, r.agent)
	if err != nil || w == nil {
		return err
	}
	if _, ended := r.place.hasStopped(w); ended {
		return nil
	}
	next, err := r.connect(w)
	if err == nil {
		err = next.Interrupt(ctx, run, kill)
	}
	if fleet.ReasonOf(err) == fleet.ReasonAgentOffline {
		return unavailable("%s", fleet.PublicMessage(err)).WithCause(err)
	}
	return err
}

// Send implements fleet.Runner.
func (r runner) Send(ctx context.Context, run fleet.Run, id, text string) error {
	if r.place.agentAPIRunners.Knows(run.TaskID) {
		return r.agentAPIRunner(nil).Send(ctx, run, id, text)
	}
	next, err := r.connectNow(ctx)
	if err != nil {
		return err
	}
	return next.Send(ctx, run, id, text)
}

// Answer implements fleet.Runner.
func (r runner) Answer(ctx context.Context, run fleet.Run, q fleet.Question) error {
	return r.call(ctx, func(next fleet.Runner) error { return next.Answer(ctx, run, q) })
}

// Changes implements fleet.Runner.
func (r runner) Changes(ctx context.Context, run fleet.Run) (*fleet.Changes, error) {
	return callRunner(ctx, r, func(next fleet.Runner) (*fleet.Changes, error) { return next.Changes(ctx, run) })
}

// Compare implements fleet.Runner.
func (r runner) Compare(ctx context.Context, base, commit string) (*fleet.Changes, error) {
	next, err := r.connectForChanges(ctx)
	if err != nil {
		return nil, err
	}
	return next.Compare(ctx, base, commit)
}

// Patch implements fleet.Runner.
func (r runner) Patch(ctx context.Context, c fleet.Changes, path string, offset int64, limit int) ([]byte, bool, error) {
	next, err := r.connectForChanges(ctx)
	if err != nil {
		return nil, false, err
	}
	return next.Patch(ctx, c, path, offset, limit)
}

// connectForChanges returns the runner of the workspace that keeps the agent's changes. It returns CHANGES_NOT_FOUND if the workspace was
// deleted.
func (r runner) connectForChanges(ctx context.Context) (fleet.Runner, error) {
	w, err := r.place.find(ctx, r.agent)
	switch {
	case err != nil:
		return nil, err
	case w == nil:
		return nil, fleet.Errorf(fleet.ReasonChangesNotFound, "the changes of the agent %q were deleted with its workspace", r.agent.Name)
	}
	return r.connect(w)
}

// Output implements fleet.Runner.
func (r runner) Output(ctx context.Context, run fleet.Run, offset int64, limit int) (fleet.OutputPage, error) {
	return callRunner(ctx, r, func(next fleet.Runner) (fleet.OutputPage, error) { return next.Output(ctx, run, offset, limit) })
}

// Check implements fleet.Runner.
func (r runner) Check(ctx context.Context, run fleet.Run, c fleet.Check) (fleet.CheckResult, error) {
	return callRunner(ctx, r, func(next fleet.Runner) (fleet.CheckResult, error) { return next.Check(ctx, run, c) })
}

// Bundle implements fleet.Runner.
func (r runner) Bundle(ctx context.Context, to io.Writer) error {
	next, err := r.connectNow(ctx)
	if err != nil {
		return err
	}
	return next.Bundle(ctx, to)
}
