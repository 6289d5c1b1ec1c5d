package agentapi

import (
	"context"
	"errors"
	"time"

	"fleet/internal/fleet"
)

const (
	tickTime     = 250 * time.Millisecond // interval for checking a run whose screen does not change
	pollPause    = time.Second            // polling interval without an event stream
	streamAgain  = 30 * time.Second       // before the next attempt to open an event stream
	checkEvery   = 15 * time.Second       // interval for reading a run's workspace, and for checking a silent stream
	reportGrace  = 10 * time.Second       // how long an agent may take to become idle after it reported its end
	patienceLost = 2 * time.Minute        // how long an agent may be unreachable before its run fails
	stuckTime    = 20 * time.Second       // how long an agent may show nothing after it got a message
	quitTime     = 10 * time.Second       // how long a run may take to end after its time limit
)

// Follow implements fleet.Runner.
func (w runner) Follow(ctx context.Context, r fleet.Run, cursor string, sink func(fleet.Output) error) (fleet.Outcome, error) {
	runners, a := w.runners, w.agent
	if err := ctx.Err(); err != nil {
		return fleet.Outcome{}, err
	}
	t := runners.runs.getOrCreate(r.TaskID)
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return fleet.Outcome{}, ctx.Err()
	}
	f := &follower{runners: runners, find: w.find, agent: a, run: r, sink: sink, transcript: t, resumed: cursor != ""}
	var err error
	if f.next, err = t.indexAfter(cursor); err != nil {
		return fleet.Outcome{}, err
	}
	o, err := f.follow(ctx)
	if err != nil {
		t.unseal()
	}
	var sunk sinkError
	if errors.As(err, &sunk) {
		return fleet.Outcome{}, sunk.error
	}
	if err != nil {
		return fleet.Outcome{}, err
	}
	o.Terminal = true
	t.end(o)
	t.drop()
	return o, nil
}

// follower follows one run.
type follower struct {
	runners    *Runners
	find       Find
	agent      fleet.Agent
	run        fleet.Run
	sink       func(fleet.Output) error
	transcript *transcript
	next       int  // index of the first output that sink has not accepted
	resumed    bool // a part of the run's output was passed on before

	workspace Workspace
	api       *client

	streamless time.Time // when the last event stream ended or failed; zero if no stream was tried yet

	view    *view
	viewAt  time.Time // when view was read
	checked time.Time // when the workspace was last read
	stuck   time.Time // since when the agent shows nothing
	lost    time.Time // since when the agent cannot be reached
	overdue time.Time // when the run was last interrupted because of its time limit
	pressed int       // number of interrupts so far
}

func (f *follower) now() time.Time { return f.runners.config.Now() }

func (f *follower) follow(ctx context.Context) (fleet.Outcome, error) {
	if err := f.deliver(); err != nil {
		return fleet.Outcome{}, err
	}
	if o, ended := f.transcript.result(); ended {
		return o, nil
	}
	var err error
	if f.workspace, err = f.find(ctx); err != nil {
		return fleet.Outcome{}, err
	}
	if f.workspace == nil {
		return lost("its workspace was deleted"), nil
	}
	for {
		if why := f.workspace.Facts().Ended; why != "" {
			return lost(why), nil
		}
		o, ended, err := f.watch(ctx)
		if err != nil || ended {
			return o, err
		}
		// The agent cannot be reached. Check whether it still exists.
		if err := f.runners.config.Wait(ctx, pollPause); err != nil {
			return fleet.Outcome{}, err
		}
		there, err := f.workspace.Refresh(ctx)
		if err != nil {
			return fleet.Outcome{}, err
		}
		if !there {
			return lost("its workspace was deleted"), nil
		}
		if f.now().Sub(f.lost) > patienceLost {
			reason := f.workspace.Facts().Problem
			if reason == "" {
				reason = "AgentAPI does not answer"
			}
			return lost("the agent could not be reached for " + patienceLost.String() + ": " + reason), nil
		}
	}
}

func (f *follower) use(v *view) { f.view, f.viewAt, f.lost = v, f.now(), time.Time{} }

// deliver passes on the outputs that the sink has not accepted yet.
func (f *follower) deliver() error {
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
	f.transcript.add(f.transcript.screenReader.write(f.view.messages[i], f.view.messages[i+1:end], final, f.now()))
	return f.deliver()
}

// step handles the newest view. It passes on new text, and reports whether the run has ended.
func (f *follower) step(ctx context.Context) (o fleet.Outcome, ended bool, err error) {
	i := f.locate(f.view)
	if i < 0 {
		return f.missing()
	}
	end, last := f.segment(f.view, i)
	if !last {
		return f.finish(ctx, f.view, i, end, false)
	}
	if err := f.passOnText(i, end, false); err != nil {
		return o, false, err
	}
	if f.atRest(f.view, i, end) && !f.transcript.waits() {
		// A message may have been sent since the view was read, or may be being delivered.
		v, err := f.api.look(ctx)
		if err != nil {
			return o, false, err
		}
		f.use(v)
		if i = f.locate(v); i < 0 {
			return f.missing()
		}
		if end, last = f.segment(v, i); !last {
			return f.finish(ctx, v, i, end, last)
		}
		if f.atRest(v, i, end) {
			return f.finishSealed(ctx, v, i, end)
		}
	}
	if o, ended, err = f.check(ctx, i, end); err != nil || ended {
		return o, ended, err
	}
	return f.limit(ctx, i, end)
}

func (f *follower) locate(v *view) int { return f.runners.locate(v, f.agent, f.run, f.transcript) }

func (f *follower) segment(v *view, i int) (end int, last bool) {
	return f.runners.segment(v, f.agent, f.transcript, i)
}

// atRest reports whether the agent became idle after it got the run.
func (f *follower) atRest(v *view, i, end int) bool {
	return v.status == statusStable && end > i+1 && v.messages[end-1].Role != roleUser
}

// missing handles a conversation without the run.
func (f *follower) missing() (fleet.Outcome, bool, error) {
	dispatched, _ := f.transcript.dispatchState()
	switch {
	case f.transcript.wasInterrupted():
		return fleet.Outcome{Status: fleet.TaskStopped, Reason: "the agent was restarted while it was being stopped"}, true, nil
	case dispatched || f.resumed || f.seen() || f.workspace.Facts().restarted(f.run):
		return fleet.Outcome{
			Status: fleet.TaskFailed, Reason: "the agent was restarted while it worked, and no longer knows the task", ReasonCode: fleet.CodeRunnerLost,
		}, true, nil
	}
	return fleet.Outcome{}, false, fleet.Errorf(fleet.ReasonTaskNotFound, "the agent %q has no task %s", f.agent.Name, f.run.TaskID)
}

// seen reports whether the run was in the conversation before.
func (f *follower) seen() bool {
	_, ok := f.transcript.ownMessageTime()
	return ok
}

// check unblocks AgentAPI if necessary. Every checkEvery it also reads the workspace and ends the run if the workspace
// is stopping, or if the agent has reported the end of its work without becoming idle.
func (f *follower) check(ctx context.Context, i, end int) (o fleet.Outcome, ended bool, err error) {
	now := f.now()
	if f.checked.IsZero() {
		f.checked = now
	}
	if err := f.wake(ctx, end, now); err != nil {
		return o, false, err
	}
	if now.Sub(f.checked) < checkEvery {
		return o, false, nil
	}
	f.checked = now
	there, err := f.workspace.Refresh(ctx)
	if err != nil {
		return o, false, err
	}
	if !there {
		return lost("its workspace was deleted"), true, nil
	}
	facts := f.workspace.Facts()
	if facts.Ended != "" {
		return lost(facts.Ended), true, nil
	}
	since := f.since(i)
	if f.transcript.waits() {
		return o, false, nil
	}
	for _, r := range facts.Reports {
		if r.Final() && r.At.After(since) && now.Add(facts.Ahead).Sub(r.At) > reportGrace {
			return f.finishSealed(ctx, f.view, i, end)
		}
	}
	return o, false, nil
}

// wake unblocks AgentAPI, which treats a repeated answer as no answer and then waits forever. Any change of the screen
// helps.
func (f *follower) wake(ctx context.Context, end int, now time.Time) error {
	if f.view.messages[end-1].Role != roleUser {
		f.stuck = time.Time{}
		return nil
	}
	if f.stuck.IsZero() {
		f.stuck = now
	}
	if now.Sub(f.stuck) < stuckTime {
		return nil
	}
	f.stuck = now
	if err := f.api.send(ctx, typeRaw, keyType); err != nil {
		return err
	}
	if err := f.runners.config.Wait(ctx, tickTime); err != nil {
		return err
	}
	return f.api.send(ctx, typeRaw, keyErase)
}

// limit interrupts a run at its time limit. If two interrupts do not stop the run, limit ends it.
func (f *follower) limit(ctx context.Context, i, end int) (o fleet.Outcome, ended bool, err error) {
	now := f.now()
	if f.run.Timeout <= 0 || now.Before(f.run.Started.Add(f.run.Timeout)) {
		return o, false, nil
	}
	if !f.overdue.IsZero() && now.Sub(f.overdue) < quitTime {
		return o, false, nil
	}
	f.overdue = now
	f.transcript.drop()
	f.pressed++
	switch f.pressed {
	case 1:
		return o, false, f.api.send(ctx, typeRaw, keyEscape)
	case 2:
		return o, false, f.api.send(ctx, typeRaw, keyInterrupt)
	}
	return f.finish(ctx, f.view, i, end, true)
}
