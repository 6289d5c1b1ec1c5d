package runner

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/runner/process"
	"fleet/internal/runner/shim"
)

// listenTimeout is how long a supervisor may take to listen, or to record the end of its run. After that time the
// supervisor counts as unreachable, for example because the agent has removed the supervisor's socket.
const listenTimeout = 3 * time.Second

// Interrupt implements fleet.Runner. The supervisor of the run sends SIGTERM to the run's process group, after an active
// request to the model if Run.Linger allows it. If kill is set, the supervisor sends SIGKILL to the run's program and all its
// descendants, and Interrupt also kills a supervisor that does not answer. Interrupt does the same with the checks of the run, but
// does not wait for requests to the model.
func (a Agent) Interrupt(ctx context.Context, r fleet.Run, kill bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := interrupt(ctx, a.home.run(r.TaskID), r.Linger, kill); err != nil {
		return err
	}
	checks, err := a.home.checkRuns(r)
	for _, run := range checks {
		if e := interrupt(ctx, run, 0, kill); err == nil {
			err = e
		}
	}
	return err
}

func interrupt(ctx context.Context, run shim.Run, linger time.Duration, kill bool) error {
	for begun, pause := time.Now(), 5*time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		if c, err := run.Claim(); err == nil && (c == nil || c.Void) || isMissing(err) {
			return nil // never started
		}
		exit, err := run.Settle()
		if err != nil {
			return HostError("cannot read the run's end", err)
		}
		if exit != nil {
			return nil
		}
		err = run.Interrupt(ctx, kill, linger, "it was asked to stop")
		if errors.Is(err, shim.ErrEnded) && time.Since(begun) > listenTimeout {
			err = shim.ErrNoReply
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, shim.ErrNoReply) && kill:
			if err := run.Kill(shim.Lost); err != nil {
				return HostError("cannot kill the run", err)
			}
			return nil
		case errors.Is(err, shim.ErrEnded): // the run has ended, or the supervisor does not listen yet: try again
		case errors.Is(err, shim.ErrNoReply):
			return fleet.Errorf(fleet.ReasonBackendUnavailable, "the run's supervisor does not answer: try again").WithCause(err)
		default:
			return HostError("cannot interrupt the run", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// End ends every run of the agent, and makes sure that no run starts later. When it returns nil, no process of these
// runs is left.
func (host *Host) End(ctx context.Context, h Home, reason string) error {
	runs, err := h.runs()
	if err != nil {
		return HostError("cannot read the agent's runs", err)
	}
	for _, run := range runs {
		if claimed, err := settleUnclaimed(run); err != nil {
			return err
		} else if !claimed {
			continue
		}
		if _, err := run.End(ctx, host.config.StopGrace, reason); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return HostError("cannot end the run "+filepath.Base(string(run)), err)
		}
	}
	process.KillMarked(shim.Mark(shim.Run(h.path("runs")))) // the agent may have removed the directory of a run
	return nil
}
