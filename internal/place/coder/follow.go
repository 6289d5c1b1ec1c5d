package coder

import (
	"context"
	"sync"
	"time"

	"fleet/internal/fleet"
)

const (
	reconnectPause    = time.Second      // the first pause between attempts to reach a runner
	maxReconnectPause = 15 * time.Second // the longest such pause
)

// follower follows a run in a fleet-runner.
type follower struct {
	place *Place
	agent fleet.Agent
	run   fleet.Run
	sink  func(fleet.Output) error
	w     *workspace
	pause time.Duration // the last pause; it grows while the runner is unreachable, and is 0 after an output
}

// lostOutcome returns the outcome of a run that no longer exists in its workspace, for example because the workspace was deleted.
func lostOutcome(reason string) fleet.Outcome {
	return fleet.Outcome{Status: fleet.TaskFailed, Reason: reason, ReasonCode: fleet.CodePlaceLost}
}

// follow passes on the outputs of the run after the cursor until the run ends, and returns the outcome. It retries as long as
// the runner is unreachable, because the run continues in its workspace until the runner ends it at its time limit. If the
// workspace was stopped, deleted or restarted without a fleet-runner, the run has failed.
func (f *follower) follow(ctx context.Context, cursor string) (fleet.Outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f.place.activity.beginRun(f.w.ws.ID)
	defer func() { f.place.activity.endRun(f.w.ws.ID, f.place.config.Now()) }()
	var sinkMu sync.Mutex
	forward := func(out fleet.Output) error {
		sinkMu.Lock()
		defer sinkMu.Unlock()
		if out.Cursor != "" {
			cursor = out.Cursor
		}
		if out.Question == nil { // the runner sends questions without a cursor
			out.Cursor = runnerCursorPrefix + cursor
		}
		return f.sink(out)
	}
	deadlineDone := make(chan struct{})
	go func() {
		defer close(deadlineDone)
		f.place.keepExtendingDeadline(ctx, f.agent, *f.w, func(problem string) { _ = forward(warning(problem)) })
	}()
	defer func() {
		cancel()
		<-deadlineDone
	}()
	for {
		if why, ended := f.place.hasStopped(f.w); ended {
			return lostOutcome(why), nil
		}
		r, err := f.place.remoteRunner(f.agent, f.w)
		if err == nil {
			var o fleet.Outcome
			sinkMu.Lock()
			runnerCursor := cursor
			sinkMu.Unlock()
			if o, err = r.Follow(ctx, f.run, runnerCursor, func(out fleet.Output) error {
				f.pause = 0
				return forward(out)
			}); err == nil {
				return o, nil
			}
		}
		if reason := fleet.ReasonOf(err); ctx.Err() != nil || reason != fleet.ReasonBackendUnavailable && reason != fleet.ReasonAgentOffline {
			return fleet.Outcome{}, err
		}
		f.pause = min(max(2*f.pause, reconnectPause), maxReconnectPause)
		if err := f.place.sleep(ctx, f.pause); err != nil {
			return fleet.Outcome{}, err
		}
		exists, err := f.w.refresh(ctx)
		if err != nil {
			return fleet.Outcome{}, err
		}
		if !exists {
			return lostOutcome("its workspace was deleted"), nil
		}
		if !f.w.hasRunner() && f.w.hasApp() {
			return lostOutcome(reasonWithoutRunner), nil
		}
	}
}

// reasonWithoutRunner is the failure reason of a run whose workspace was restarted with AgentAPI instead of fleet-runner.
const reasonWithoutRunner = "its workspace was restarted without " + runnerSlug

// warning returns an output that shows a warning of Fleet in a run.
func warning(text string) fleet.Output {
	return fleet.Output{IsStep: true, Text: text, Data: (&fleet.Step{Type: fleet.StepWarning, Message: text}).JSON()}
}
