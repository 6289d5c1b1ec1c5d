package agentapi

import (
	"context"
	"errors"
	"time"

	"fleet/internal/fleet"
)

const (
	tickInterval     = 250 * time.Millisecond // interval for checking a run whose screen does not change
	pollPause        = time.Second            // polling interval without an event stream
	streamRetryDelay = 30 * time.Second       // before the next attempt to open an event stream
	checkInterval    = 15 * time.Second       // interval for reading a run's workspace, and for checking a silent stream
	reportGrace      = 10 * time.Second       // how long an agent may take to become idle after it reported its end
	maxUnreachable   = 2 * time.Minute        // how long an agent may be unreachable before its run fails
	stuckTimeout     = 20 * time.Second       // how long an agent may show nothing after it got a message
	quitTimeout      = 10 * time.Second       // how long a run may take to end after an interrupt at its time limit
)

// Follow implements fleet.Runner.
func (w runner) Follow(ctx context.Context, r fleet.Run, cursor string, sink func(fleet.Output) error) (fleet.Outcome, error) {
	runners, a := w.runners, w.agent
	if err := ctx.Err(); err != nil {
		return fleet.Outcome{}, err
	}
	t := runners.transcripts.getOrCreate(r.TaskID)
	select {
	case t.followerLock <- struct{}{}:
		defer func() { <-t.followerLock }()
	case <-ctx.Done():
		return fleet.Outcome{}, ctx.Err()
	}
	f := &follower{runners: runners, findWorkspace: w.findWorkspace, agent: a, run: r, sink: sink, transcript: t, resumed: cursor != ""}
	var err error
	if f.next, err = t.indexAfter(cursor); err != nil {
		return fleet.Outcome{}, err
	}
	o, err := f.follow(ctx)
	if err != nil {
		t.unseal()
	}
	var sinkErr sinkError
	if errors.As(err, &sinkErr) {
		return fleet.Outcome{}, sinkErr.error
	}
	if err != nil {
		return fleet.Outcome{}, err
	}
	o.Terminal = true
	t.setOutcome(o)
	t.dropPending()
	return o, nil
}

// follower follows one run.
type follower struct {
	runners       *Runners
	findWorkspace FindWorkspace
	agent         fleet.Agent
	run           fleet.Run
	sink          func(fleet.Output) error
	transcript    *transcript
	next          int  // index in transcript.outputs of the first output that sink has not accepted
	resumed       bool // a part of the run's output was passed on before

	workspace Workspace
	api       *client

	lastStreamEnd time.Time // when the last event stream ended or failed; zero if no stream was tried yet

	view               *view
	viewAt             time.Time // when view was read
	checkedAt          time.Time // when the workspace was last read
	stuckSince         time.Time // since when the agent has shown nothing after a message; zero if it has
	lostSince          time.Time // since when the agent cannot be reached; zero if it can
	timeoutInterruptAt time.Time // when the run was last interrupted because of its time limit
	interrupts         int       // number of interrupts so far
}

func (f *follower) now() time.Time { return f.runners.config.Now() }

func (f *follower) follow(ctx context.Context) (fleet.Outcome, error) {
	if err := f.passOnOutputs(); err != nil {
		return fleet.Outcome{}, err
	}
	if o, ended := f.transcript.endOutcome(); ended {
		return o, nil
	}
	var err error
	if f.workspace, err = f.findWorkspace(ctx); err != nil {
		return fleet.Outcome{}, err
	}
	if f.workspace == nil {
		return lostOutcome("its workspace was deleted"), nil
	}
	for {
		if why := f.workspace.Facts().EndReason; why != "" {
			return lostOutcome(why), nil
		}
		o, ended, err := f.watch(ctx)
		if err != nil || ended {
			return o, err
		}
		// The agent cannot be reached. Check whether it still exists.
		if err := f.runners.config.Wait(ctx, pollPause); err != nil {
			return fleet.Outcome{}, err
		}
		exists, err := f.workspace.Refresh(ctx)
		if err != nil {
			return fleet.Outcome{}, err
		}
		if !exists {
			return lostOutcome("its workspace was deleted"), nil
		}
		if f.now().Sub(f.lostSince) > maxUnreachable {
			reason := f.workspace.Facts().Problem
			if reason == "" {
				reason = "AgentAPI does not answer"
			}
			return lostOutcome("the agent could not be reached for " + maxUnreachable.String() + ": " + reason), nil
		}
	}
}

func (f *follower) setView(v *view) { f.view, f.viewAt, f.lostSince = v, f.now(), time.Time{} }

// passOnOutputs passes on the outputs that the sink has not accepted yet.
func (f *follower) passOnOutputs() error {
	for f.next < len(f.transcript.outputs) {
		if err := f.sink(f.transcript.outputs[f.next]); err != nil {
			return sinkError{err}
		}
		f.next++
		f.resumed = true
	}
	f.next = f.transcript.trim(f.next)
	return nil
}

// passOnText reads the new text of the run, whose messages are from i to end, and passes it on. final means that the
// last message is complete.
func (f *follower) passOnText(i, end int, final bool) error {
	f.transcript.add(f.transcript.screenReader.newText(f.view.messages[i], f.view.messages[i+1:end], final, f.now()))
	return f.passOnOutputs()
}

// handleView handles the newest view. It passes on new text, and reports whether the run has ended. At the time limit of the
// run, it interrupts the run.
func (f *follower) handleView(ctx context.Context) (o fleet.Outcome, ended bool, err error) {
	i := f.locate(f.view)
	if i < 0 {
		return f.handleMissing()
	}
	end, last := f.findEnd(f.view, i)
	if !last {
		return f.finish(ctx, f.view, i, end)
	}
	if err := f.passOnText(i, end, false); err != nil {
		return o, false, err
	}
	if f.isIdle(f.view, i, end) && !f.transcript.hasPending() {
		// A message may have been sent since the view was read, or may be being delivered.
		v, err := f.api.readView(ctx)
		if err != nil {
			return o, false, err
		}
		f.setView(v)
		if i = f.locate(v); i < 0 {
			return f.handleMissing()
		}
		if end, last = f.findEnd(v, i); !last {
			return f.finish(ctx, v, i, end)
		}
		if f.isIdle(v, i, end) {
			return f.finishAndSeal(ctx, v, i, end)
		}
	}
	if o, ended, err = f.checkWorkspace(ctx, i, end); err != nil || ended {
		return o, ended, err
	}
	return f.enforceTimeLimit(ctx, i, end)
}

func (f *follower) locate(v *view) int { return f.runners.locate(v, f.agent, f.run, f.transcript) }

func (f *follower) findEnd(v *view, i int) (end int, last bool) {
	return f.runners.findEnd(v, f.agent, f.transcript, i)
}

// isIdle reports whether the agent became idle after it got the run.
func (f *follower) isIdle(v *view, i, end int) bool {
	return v.status == statusStable && end > i+1 && v.messages[end-1].Role != roleUser
}

// handleMissing returns the outcome of a run that is not in the conversation, or TASK_NOT_FOUND if the agent never had the run.
func (f *follower) handleMissing() (fleet.Outcome, bool, error) {
	dispatched, _ := f.transcript.dispatchState()
	_, located := f.transcript.ownMessageTime()
	switch {
	case f.transcript.wasInterrupted():
		return fleet.Outcome{Status: fleet.TaskStopped, Reason: "the agent was restarted while it was being stopped"}, true, nil
	case dispatched || f.resumed || located || f.workspace.Facts().restarted(f.run):
		return fleet.Outcome{
			Status: fleet.TaskFailed, Reason: "the agent was restarted while it worked, and no longer knows the task", ReasonCode: fleet.CodeRunnerLost,
		}, true, nil
	}
	return fleet.Outcome{}, false, fleet.Errorf(fleet.ReasonTaskNotFound, "the agent %q has no task %s", f.agent.Name, f.run.TaskID)
}

// checkWorkspace unblocks AgentAPI if necessary. Every checkInterval it also reads the workspace. It ends the run if the
// workspace was deleted or has an EndReason, or if the agent has reported the end of its work without becoming idle.
func (f *follower) checkWorkspace(ctx context.Context, i, end int) (o fleet.Outcome, ended bool, err error) {
	now := f.now()
	if f.checkedAt.IsZero() {
		f.checkedAt = now
	}
	if err := f.unblockAPI(ctx, end, now); err != nil {
		return o, false, err
	}
	if now.Sub(f.checkedAt) < checkInterval {
		return o, false, nil
	}
	f.checkedAt = now
	exists, err := f.workspace.Refresh(ctx)
	if err != nil {
		return o, false, err
	}
	if !exists {
		return lostOutcome("its workspace was deleted"), true, nil
	}
	facts := f.workspace.Facts()
	if facts.EndReason != "" {
		return lostOutcome(facts.EndReason), true, nil
	}
	since := f.reportsSince(i)
	if f.transcript.hasPending() {
		return o, false, nil
	}
	for _, r := range facts.Reports {
		if r.IsFinal() && r.At.After(since) && now.Add(facts.ClockSkew).Sub(r.At) > reportGrace {
			return f.finishAndSeal(ctx, f.view, i, end)
		}
	}
	return o, false, nil
}

// unblockAPI changes the agent's screen if the agent has shown nothing for stuckTimeout after a message. AgentAPI treats a
// repeated answer as no answer, and then waits until the screen changes.
func (f *follower) unblockAPI(ctx context.Context, end int, now time.Time) error {
	if f.view.messages[end-1].Role != roleUser {
		f.stuckSince = time.Time{}
		return nil
	}
	if f.stuckSince.IsZero() {
		f.stuckSince = now
	}
	if now.Sub(f.stuckSince) < stuckTimeout {
		return nil
	}
	f.stuckSince = now
	if err := f.api.send(ctx, typeRaw, keyType); err != nil {
		return err
	}
	if err := f.runners.config.Wait(ctx, tickInterval); err != nil {
		return err
	}
	return f.api.send(ctx, typeRaw, keyErase)
}

// enforceTimeLimit interrupts a run at its time limit. If two interrupts do not stop the run, enforceTimeLimit ends it.
func (f *follower) enforceTimeLimit(ctx context.Context, i, end int) (o fleet.Outcome, ended bool, err error) {
	now := f.now()
	if f.run.Timeout <= 0 || now.Before(f.run.StartedAt.Add(f.run.Timeout)) {
		return o, false, nil
	}
	if !f.timeoutInterruptAt.IsZero() && now.Sub(f.timeoutInterruptAt) < quitTimeout {
		return o, false, nil
	}
	f.timeoutInterruptAt = now
	f.transcript.dropPending()
	f.interrupts++
	switch f.interrupts {
	case 1:
		return o, false, f.api.send(ctx, typeRaw, keyEscape)
	case 2:
		return o, false, f.api.send(ctx, typeRaw, keyInterrupt)
	}
	return f.finish(ctx, f.view, i, end)
}
