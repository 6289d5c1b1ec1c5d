package coder

import (
	"context"
	"sync"
	"time"

	"fleet/internal/fleet"
)

const (
	pollPause    = time.Second      // pause between attempts to reach a runner
	mostPollWait = 15 * time.Second // the longest such pause
)

// follower follows a run in a fleet-runner.
type follower struct {
	place *Place
	agent fleet.Agent
	run   fleet.Run
	sink  func(fleet.Output) error
	at    *workspace
	pause time.Duration // the next pause; it grows while the runner is unreachable
}

// lost returns the outcome of a run whose workspace is lost.
func lost(reason string) fleet.Outcome {
	return fleet.Outcome{Status: fleet.TaskFailed, Reason: reason, ReasonCode: fleet.CodePlaceLost}
}

// follow passes on the outputs of the run after the cursor until the run ends, and returns the outcome. It retries
// as long as the runner is unreachable: the run goes on in its workspace, and the runner ends it at its time limit.
func (f *follower) follow(ctx context.Context, cursor string) (fleet.Outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f.place.activity.begin(f.at.ws.ID)
	defer func() { f.place.activity.end(f.at.ws.ID, f.place.config.Now()) }()
	var sinking sync.Mutex
	pass := func(out fleet.Output) error {
		sinking.Lock()
		defer sinking.Unlock()
		if out.Cursor != "" {
			cursor = out.Cursor
		}
		if out.Question == nil { // the runner sends questions without a cursor
			out.Cursor = cursorMark + cursor
		}
		return f.sink(out)
	}
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		f.place.extendDeadline(ctx, f.agent, *f.at, func(words string) { _ = pass(warning(words)) })
	}()
	defer func() {
		cancel()
		<-kept
	}()
	for {
		if why, ended := f.place.ended(f.at); ended {
			return lost(why), nil
		}
		r, err := f.place.remote(f.agent, f.at)
		if err == nil {
			var o fleet.Outcome
			sinking.Lock()
			from := cursor
			sinking.Unlock()
			if o, err = r.Follow(ctx, f.run, from, func(out fleet.Output) error {
				f.pause = 0
				return pass(out)
			}); err == nil {
				return o, nil
			}
		}
		if reason := fleet.ReasonOf(err); ctx.Err() != nil || reason != fleet.ReasonBackendUnavailable && reason != fleet.ReasonAgentOffline {
			return fleet.Outcome{}, err
		}
		f.pause = min(max(2*f.pause, pollPause), mostPollWait)
		if err := f.place.wait(ctx, f.pause); err != nil {
			return fleet.Outcome{}, err
		}
		there, err := f.at.refresh(ctx)
		if err != nil {
			return fleet.Outcome{}, err
		}
		if !there {
			return lost("its workspace was deleted"), nil
		}
		if !f.at.hasRunner() && !f.at.hasNoApp() {
			return lost(withoutRunner), nil
		}
	}
}

// withoutRunner is the failure reason of a run whose workspace was restarted with AgentAPI instead of fleet-runner.
const withoutRunner = "its workspace was restarted without " + runnerSlug
