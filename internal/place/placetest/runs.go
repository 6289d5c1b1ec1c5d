package placetest

import (
	"context"
	"errors"
	"slices"

	"fleet/internal/fleet"
)

func runCompletes(x *fixture) {
	a := x.readyAgent()
	p := x.harness.Prompts.Says
	r := x.dispatch(a, p)
	outputs, o := x.requireCompleted(a, r, p)
	x.Empty(o.Reason)
	if o.ExitCode != nil {
		x.Zero(*o.ExitCode)
	}
	secondOutputs, secondOutcome := x.followWhole(a, r) // again, after the end of the run
	x.Equal(text(outputs), text(secondOutputs))
	x.Equal(o, secondOutcome)
}

func runFails(x *fixture) {
	a := x.readyAgent()
	_, o := x.followWhole(a, x.dispatch(a, x.harness.Prompts.Fails))
	x.requireFailed(o)
	x.Contains(o.Reason, x.harness.Prompts.Fails.Reason)
	x.completeRun(a)
}

func runPayload(x *fixture) {
	p := x.harness.Prompts.Payload
	x.skipUnlessSet(p, "payloads")
	a := x.readyAgent()
	_, o := x.requireCompleted(a, x.dispatch(a, p), p)
	x.Equal(string(p.Payload), string(o.Payload))
	_, o = x.followWhole(a, x.completeRun(a))
	x.NotEqual(string(p.Payload), string(o.Payload), "the payload must not be the payload of the previous run")
}

func runAfterRun(x *fixture) {
	a := x.readyAgent()
	p := x.harness.Prompts.Says
	first := x.dispatch(a, p)
	firstOutputs, _ := x.requireCompleted(a, first, p)
	x.requireCompleted(a, x.dispatch(a, p), p)
	repeatedOutputs, _ := x.followWhole(a, first) // the output of the first run must not change
	x.Equal(text(firstOutputs), text(repeatedOutputs))
}

func runsOfTwoAgents(x *fixture) {
	one, two := x.readyAgent(), x.readyAgent()
	r1, f1 := x.startWorking(one, x.harness.Prompts.Works)
	r2, f2 := x.startWorking(two, x.harness.Prompts.Works)
	x.interruptRun(one, r1, f1)
	x.requireReason(x.place.Connect(two).Dispatch(x.ctx, x.newRun(x.harness.Prompts.Says)), fleet.ReasonAgentBusy)
	x.completeRun(one)
	x.interruptRun(two, r2, f2)
}

func dispatchAgain(x *fixture) {
	a := x.readyAgent()
	dispatchTwice := func(r fleet.Run) {
		for range 2 {
			r.Again = true
			x.NoError(x.place.Connect(a).Dispatch(x.ctx, r))
		}
	}
	r := x.dispatch(a, x.harness.Prompts.Says)
	dispatchTwice(r)
	firstOutputs, o := x.requireCompleted(a, r, x.harness.Prompts.Says)
	dispatchTwice(r) // now the run has ended
	secondOutputs, secondOutcome := x.requireCompleted(a, r, x.harness.Prompts.Says)
	x.Equal(text(firstOutputs), text(secondOutputs))
	x.Equal(o, secondOutcome)

	r, f := x.startWorking(a, x.harness.Prompts.Works)
	dispatchTwice(r)
	x.interruptRun(a, r, f)
	dispatchTwice(r)
	outputs, o := x.followWhole(a, r)
	x.Equal(fleet.TaskStopped, o.Status)
	x.requireLines(outputs, x.harness.Prompts.Works.Lines...)

	// The server repeats a dispatch that has never reached the place.
	r = x.newRun(x.harness.Prompts.Says)
	dispatchTwice(r)
	x.requireCompleted(a, r, x.harness.Prompts.Says)
}

func dispatchBusy(x *fixture) {
	a := x.readyAgent()
	r, f := x.startWorking(a, x.harness.Prompts.Works)
	refused := x.newRun(x.harness.Prompts.Says)
	x.requireReason(x.place.Connect(a).Dispatch(x.ctx, refused), fleet.ReasonAgentBusy)
	x.interruptRun(a, r, f)
	x.NoError(x.place.Connect(a).Dispatch(x.ctx, refused)) // the refused dispatch created no run
	x.requireCompleted(a, refused, x.harness.Prompts.Says)
}

func dispatchStopped(x *fixture) {
	a := x.readyAgent()
	x.stop(a)
	refused := x.newRun(x.harness.Prompts.Says)
	x.requireReason(x.place.Connect(a).Dispatch(x.ctx, refused), fleet.ReasonAgentOffline)
	x.start(a)
	x.NoError(x.place.Connect(a).Dispatch(x.ctx, refused))
	x.requireCompleted(a, refused, x.harness.Prompts.Says)
}

func dispatchWithoutWorkspace(x *fixture) {
	x.requireReason(x.place.Connect(x.newAgent()).Dispatch(x.ctx, x.newRun(x.harness.Prompts.Says)), fleet.ReasonAgentOffline)
}

func followCursors(x *fixture) {
	a := x.readyAgent()
	r := x.dispatch(a, x.harness.Prompts.Says)
	live, o := x.requireCompleted(a, r, x.harness.Prompts.Says)
	after, _ := x.followWhole(a, r)
	for _, outputs := range [][]fleet.Output{live, after} {
		for i, out := range outputs {
			rest, restOutcome, err := x.follow(x.ctx, a, r, out.Cursor).waitForEnd()
			x.NoError(err)
			x.Equal(text(outputs[i+1:]), text(rest), "after cursor %q", out.Cursor)
			x.Equal(o, restOutcome)
		}
	}
}

func followSinkError(x *fixture) {
	a := x.readyAgent()
	r := x.dispatch(a, x.harness.Prompts.Says)
	full := errors.New("the disk is full")
	var outputsSoFar []fleet.Output

	// The sink accepts n outputs and then fails.
	follow := func(cursor string, n int) error {
		_, err := x.place.Connect(a).Follow(x.ctx, r, cursor, func(out fleet.Output) error {
			if n--; n < 0 {
				return full
			}
			outputsSoFar = append(outputsSoFar, out)
			return nil
		})
		return err
	}
	x.ErrorIs(follow("", 0), full)
	if err := follow("", 1); err != nil { // there is no error if all output came in one piece
		x.ErrorIs(err, full)
	}
	x.Len(outputsSoFar, 1)
	rest, o, err := x.follow(x.ctx, a, r, outputsSoFar[0].Cursor).waitForEnd()
	x.NoError(err)
	x.Equal(fleet.TaskCompleted, o.Status)
	x.requireLines(append(outputsSoFar, rest...), x.harness.Prompts.Says.Lines...)
}

func followUndispatched(x *fixture) {
	a := x.readyAgent()
	_, _, err := x.follow(x.ctx, a, x.newRun(x.harness.Prompts.Says), "").waitForEnd()
	x.requireReason(err, fleet.ReasonTaskNotFound)

	r, f := x.startWorking(a, x.harness.Prompts.Works) // the result is the same while the agent works on another task
	_, _, err = x.follow(x.ctx, a, x.newRun(x.harness.Prompts.Works), "").waitForEnd()
	x.requireReason(err, fleet.ReasonTaskNotFound)
	x.interruptRun(a, r, f)
	_, _, err = x.follow(x.ctx, a, x.newRun(x.harness.Prompts.Works), "").waitForEnd()
	x.requireReason(err, fleet.ReasonTaskNotFound)
}

func followContinued(x *fixture) {
	a := x.readyAgent()
	p := x.harness.Prompts.Works
	r := x.dispatch(a, p)
	var outputsSoFar []fleet.Output
	cursor := ""
	for i := range 3 {
		ctx, cancel := context.WithCancel(x.ctx)
		f := x.follow(ctx, a, r, cursor)
		if i == 0 {
			f.waitForLine(p.Lines[len(p.Lines)-1])
		}
		cancel()
		outputs, _, err := f.waitForEnd()
		x.ErrorIs(err, context.Canceled)
		outputsSoFar = append(outputsSoFar, outputs...)
		if len(outputsSoFar) > 0 {
			cursor = outputsSoFar[len(outputsSoFar)-1].Cursor
		}
	}
	f := x.follow(x.ctx, a, r, cursor)
	x.interruptRun(a, r, f) // the run was active all the time
	rest, _, _ := f.waitForEnd()
	x.requireLines(append(outputsSoFar, rest...), p.Lines...)
}

func interrupt(x *fixture) {
	a := x.readyAgent()
	r, f := x.startWorking(a, x.harness.Prompts.Works)
	o := x.interruptRun(a, r, f)
	_, secondOutcome := x.followWhole(a, r)
	x.Equal(o, secondOutcome)
	x.completeRun(a)
}

func interruptImmediately(x *fixture) {
	for _, kill := range []bool{false, true} {
		a := x.readyAgent()
		r := x.dispatch(a, x.harness.Prompts.Works)
		x.interrupt(a, r, kill)
		_, o := x.followWhole(a, r)
		x.Equal(fleet.TaskStopped, o.Status, "kill %v: %+v", kill, o)
	}
}

func interruptEnded(x *fixture) {
	a := x.readyAgent()
	r := x.dispatch(a, x.harness.Prompts.Says)
	_, o := x.requireCompleted(a, r, x.harness.Prompts.Says)
	next, f := x.startWorking(a, x.harness.Prompts.Works)
	for _, kill := range []bool{false, true} {
		x.NoError(x.place.Connect(a).Interrupt(x.ctx, r, kill))
	}
	_, secondOutcome := x.requireCompleted(a, r, x.harness.Prompts.Says)
	x.Equal(o, secondOutcome)
	x.requireReason(x.place.Connect(a).Dispatch(x.ctx, x.newRun(x.harness.Prompts.Says)), fleet.ReasonAgentBusy) // the interrupt did not affect the next run
	x.interruptRun(a, next, f)
	x.NoError(x.place.Connect(a).Interrupt(x.ctx, next, false))
	x.NoError(x.place.Connect(a).Interrupt(x.ctx, next, true))
}

func kill(x *fixture) {
	a := x.readyAgent()
	p := x.harness.Prompts.Works
	if x.harness.Prompts.IgnoresInterrupt.Text != "" {
		p = x.harness.Prompts.IgnoresInterrupt
	}
	r, f := x.startWorking(a, p)
	if p.Reply != "" {
		x.interrupt(a, r, false)
		f.waitForLine(p.Reply)
		x.requireReason(x.place.Connect(a).Dispatch(x.ctx, x.newRun(x.harness.Prompts.Says)), fleet.ReasonAgentBusy)
	}
	x.interrupt(a, r, true)
	_, o := f.waitForOutcome()
	x.Equal(fleet.TaskStopped, o.Status, "outcome: %+v", o)
	x.completeRun(a)
}

func timeLimit(x *fixture) { x.runWithTimeLimit(x.harness.Prompts.Works) }

func timeLimitIgnoringInterrupts(x *fixture) {
	x.skipUnlessSet(x.harness.Prompts.IgnoresInterrupt, "agents that ignore an interrupt")
	x.runWithTimeLimit(x.harness.Prompts.IgnoresInterrupt)
}

func (x *fixture) runWithTimeLimit(p Prompt) {
	x.Helper()
	a := x.readyAgent()
	r := x.newRun(p)
	r.Timeout = x.harness.TimeLimit
	x.NoError(x.place.Connect(a).Dispatch(x.ctx, r))
	_, o := x.followWhole(a, r)
	x.requireTimedOut(o)
	x.completeRun(a)
}

// requireTimedOut requires that the run has failed, with a reason that contains the time limit.
func (x *fixture) requireTimedOut(o fleet.Outcome) {
	x.Helper()
	x.requireFailed(o)
	x.Contains(o.Reason, x.harness.TimeLimit.String())
}

func send(x *fixture) {
	a := x.readyAgent()
	p := x.harness.Prompts.Listens
	if p.Text == "" {
		r, f := x.startWorking(a, x.harness.Prompts.Works)
		x.requireReason(x.place.Connect(a).Send(x.ctx, r, "message-1", "Use tabs."), fleet.ReasonUnimplemented)
		x.interruptRun(a, r, f)
		return
	}
	const one, two = "Use tabs; \"quotes\" $HOME 'too'.", "And be quick."
	r, f := x.startWorking(a, p)
	x.NoError(x.place.Connect(a).Send(x.ctx, r, "message-1", one))
	x.NoError(x.place.Connect(a).Send(x.ctx, r, "message-1", one)) // a server that did not receive the first result repeats the call
	x.NoError(x.place.Connect(a).Send(x.ctx, r, "message-2", two))
	outputs, o := f.waitForOutcome()
	x.Equal(fleet.TaskCompleted, o.Status, "outcome: %+v", o)
	x.requireLines(outputs, append(slices.Clone(p.Lines), one, two)...)
	x.requireReason(x.place.Connect(a).Send(x.ctx, r, "message-3", one), fleet.ReasonNoRunningTask)
	repeatedOutputs, _ := x.followWhole(a, r)
	x.Equal(text(outputs), text(repeatedOutputs))

	r, f = x.startWorking(a, p) // messages of one run do not reach the next run, which can use the same message ids
	x.NoError(x.place.Connect(a).Send(x.ctx, r, "message-2", "for the second run"))
	x.NoError(x.place.Connect(a).Send(x.ctx, r, "message-1", "this too"))
	outputs, _ = f.waitForOutcome()
	x.requireLines(outputs, "for the second run", "this too")
	x.NotContains(text(outputs), one)
}
