package coder

import (
	"context"
	"strings"
	"sync"
	"time"

	"fleet/internal/fleet"
)

const (
	pollPause    = time.Second     // pause between attempts to reach a runner
	patienceLost = 2 * time.Minute // how long a runner may be unreachable before its run fails
)

// follower follows a run in a fleet-runner.
type follower struct {
	b     *Place
	agent fleet.Agent
	run   fleet.Run
	sink  func(fleet.Output) error
	at    *place
	lost  time.Time // when the runner became unreachable; zero while it is reachable
}

func failed(reason string) fleet.Outcome {
	return fleet.Outcome{Status: fleet.TaskFailed, Reason: reason}
}

// follow passes on the outputs of the run after the cursor until the run ends, and returns the outcome. It retries
// while the runner is unreachable, for up to patienceLost.
func (f *follower) follow(ctx context.Context, cursor string) (fleet.Outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f.b.activity.begin(f.at.ws.ID)
	defer func() { f.b.activity.end(f.at.ws.ID, f.b.config.Now()) }()
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
		f.b.extendDeadline(ctx, f.agent, *f.at, func(words string) { _ = pass(warning(words)) })
	}()
	defer func() {
		cancel()
		<-kept
	}()
	for {
		if why, ended := f.b.ended(f.at); ended {
			return failed(why), nil
		}
		r, err := f.b.remote(f.agent, f.at)
		if err == nil {
			var o fleet.Outcome
			sinking.Lock()
			from := cursor
			sinking.Unlock()
			if o, err = r.Follow(ctx, f.run, from, func(out fleet.Output) error {
				f.lost = time.Time{}
				return pass(out)
			}); err == nil {
				return o, nil
			}
		}
		if reason := fleet.ReasonOf(err); ctx.Err() != nil || reason != fleet.ReasonBackendUnavailable && reason != fleet.ReasonAgentOffline {
			return fleet.Outcome{}, err
		}
		now := f.b.config.Now()
		if f.lost.IsZero() {
			f.lost = now
		}
		if now.Sub(f.lost) > patienceLost {
			return failed("the agent could not be reached for " + patienceLost.String() + ": " + fleet.PublicMessage(err)), nil
		}
		if err := f.b.wait(ctx, pollPause); err != nil {
			return fleet.Outcome{}, err
		}
		there, err := f.at.refresh(ctx)
		if err != nil {
			return fleet.Outcome{}, err
		}
		if !there {
			return failed("its workspace was deleted"), nil
		}
		if !f.at.hasRunner() && !f.at.hasNoApp() {
			return failed(withoutRunner), nil
		}
	}
}

// withoutRunner is the failure reason of a run whose workspace was restarted with AgentAPI instead of fleet-runner.
const withoutRunner = "its workspace was restarted without " + runnerSlug

// isRemote reports whether the cursor belongs to a run in a fleet-runner, and returns the runner's own cursor.
func isRemote(cursor string) (string, bool) { return strings.CutPrefix(cursor, cursorMark) }
