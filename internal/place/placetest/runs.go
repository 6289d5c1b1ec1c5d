package placetest

import (
	"context"
	"errors"
	"slices"

	"fleet/internal/fleet"
)

func runCompletes(x *fixture) {
	a := x.ready()
	p := x.h.Prompts.Says
	r := x.dispatch(a, p)
	outputs, o := x.completes(a, r, p)
	x.Empty(o.Reason)
	if o.ExitCode != nil {
		x.Zero(*o.ExitCode)
	}
	again, same := x.whole(a, r) // again, after the end of the run
	x.Equal(text(outputs), text(again))
	x.Equal(o, same)
}

func runFails(x *fixture) {
	a := x.ready()
	_, o := x.whole(a, x.dispatch(a, x.h.Prompts.Fails))
	x.failed(o)
	x.Contains(o.Reason, x.h.Prompts.Fails.Reason)
	x.completes(a, x.dispatch(a, x.h.Prompts.Says), x.h.Prompts.Says)
}

func runPayload(x *fixture) {
	p := x.h.Prompts.Payload
	x.need(p, "payloads")
	a := x.ready()
	_, o := x.completes(a, x.dispatch(a, p), p)
	x.Equal(string(p.Payload), string(o.Payload))
	_, o = x.completes(a, x.dispatch(a, x.h.Prompts.Says), x.h.Prompts.Says)
	x.NotEqual(string(p.Payload), string(o.Payload), "the payload must not be the payload of the previous run")
}

func runAfterRun(x *fixture) {
	a := x.ready()
	p := x.h.Prompts.Says
	first := x.dispatch(a, p)
	said, _ := x.completes(a, first, p)
	x.completes(a, x.dispatch(a, p), p)
	again, _ := x.whole(a, first) // the output of the first run must not change
	x.Equal(text(said), text(again))
}

func runsOfManyAgents(x *fixture) {
	one, two := x.ready(), x.ready()
	r1, f1 := x.working(one, x.h.Prompts.Works)
	r2, f2 := x.working(two, x.h.Prompts.Works)
	x.stopped(one, r1, f1)
	x.reason(x.b.Connect(two).Dispatch(x.ctx, x.run(x.h.Prompts.Says)), fleet.ReasonAgentBusy)
	x.completes(one, x.dispatch(one, x.h.Prompts.Says), x.h.Prompts.Says)
	x.stopped(two, r2, f2)
}

func dispatchAgain(x *fixture) {
	a := x.ready()
	again := func(r fleet.Run) {
		for range 2 {
			r.Again = true
			x.NoError(x.b.Connect(a).Dispatch(x.ctx, r))
		}
	}
	r := x.dispatch(a, x.h.Prompts.Says)
	again(r)
	said, o := x.completes(a, r, x.h.Prompts.Says)
	again(r) // now the run has ended
	same, outcome := x.completes(a, r, x.h.Prompts.Says)
	x.Equal(text(said), text(same))
	x.Equal(o, outcome)

	r, f := x.working(a, x.h.Prompts.Works)
	again(r)
	x.stopped(a, r, f)
	again(r)
	outputs, o := x.whole(a, r)
	x.Equal(fleet.TaskStopped, o.Status)
	x.says(outputs, x.h.Prompts.Works.Lines...)

	// The server repeats a dispatch that has never reached the place.
	r = x.run(x.h.Prompts.Says)
	again(r)
	x.completes(a, r, x.h.Prompts.Says)
}

func dispatchBusy(x *fixture) {
	a := x.ready()
	r, f := x.working(a, x.h.Prompts.Works)
	refused := x.run(x.h.Prompts.Says)
	x.reason(x.b.Connect(a).Dispatch(x.ctx, refused), fleet.ReasonAgentBusy)
	x.stopped(a, r, f)
	x.NoError(x.b.Connect(a).Dispatch(x.ctx, refused)) // the refused dispatch left no run behind
	x.completes(a, refused, x.h.Prompts.Says)
}

func dispatchStopped(x *fixture) {
	a := x.ready()
	x.NoError(x.b.Stop(x.ctx, a))
	x.await(a, fleet.StateStopped)
	refused := x.run(x.h.Prompts.Says)
	x.reason(x.b.Connect(a).Dispatch(x.ctx, refused), fleet.ReasonAgentOffline)
	x.NoError(x.b.Start(x.ctx, a))
	x.await(a, fleet.StateRunning)
	x.NoError(x.b.Connect(a).Dispatch(x.ctx, refused))
	x.completes(a, refused, x.h.Prompts.Says)
}

func dispatchNothing(x *fixture) {
	x.reason(x.b.Connect(x.agent()).Dispatch(x.ctx, x.run(x.h.Prompts.Says)), fleet.ReasonAgentOffline)
}

func followCursors(x *fixture) {
	if x.h.NoResume {
		x.Skip("not supported: to follow from a cursor")
	}
	a := x.ready()
	r := x.dispatch(a, x.h.Prompts.Says)
	live, o := x.completes(a, r, x.h.Prompts.Says)
	after, _ := x.whole(a, r)
	for _, outputs := range [][]fleet.Output{live, after} {
		for i, out := range outputs {
			rest, same, err := x.follow(x.ctx, a, r, out.Cursor).end()
			x.NoError(err)
			x.Equal(text(outputs[i+1:]), text(rest), "after cursor %q", out.Cursor)
			x.Equal(o, same)
		}
	}
}

func followSinkError(x *fixture) {
	a := x.ready()
	r := x.dispatch(a, x.h.Prompts.Says)
	full := errors.New("the disk is full")
	var taken []fleet.Output

	// The sink accepts n outputs and then fails.
	follow := func(cursor string, n int) error {
		_, err := x.b.Connect(a).Follow(x.ctx, r, cursor, func(out fleet.Output) error {
			if n--; n < 0 {
				return full
			}
			taken = append(taken, out)
			return nil
		})
		return err
	}
	x.ErrorIs(follow("", 0), full)
	cursor := ""
	if !x.h.NoResume {
		if err := follow("", 1); err != nil { // there is no error if all output came in one piece
			x.ErrorIs(err, full)
		}
		x.Len(taken, 1)
		cursor = taken[0].Cursor
	}
	rest, o, err := x.follow(x.ctx, a, r, cursor).end()
	x.NoError(err)
	x.Equal(fleet.TaskCompleted, o.Status)
	x.says(append(taken, rest...), x.h.Prompts.Says.Lines...)
}

func followNothing(x *fixture) {
	a := x.ready()
	_, _, err := x.follow(x.ctx, a, x.run(x.h.Prompts.Says), "").end()
	x.reason(err, fleet.ReasonTaskNotFound)

	r, f := x.working(a, x.h.Prompts.Works) // the result is the same while the agent works on another task
	_, _, err = x.follow(x.ctx, a, x.run(x.h.Prompts.Works), "").end()
	x.reason(err, fleet.ReasonTaskNotFound)
	x.stopped(a, r, f)
	_, _, err = x.follow(x.ctx, a, x.run(x.h.Prompts.Works), "").end()
	x.reason(err, fleet.ReasonTaskNotFound)
}

func followCutOff(x *fixture) {
	a := x.ready()
	p := x.h.Prompts.Works
	r := x.dispatch(a, p)
	var taken []fleet.Output
	cursor := ""
	for i := range 3 {
		ctx, cancel := context.WithCancel(x.ctx)
		f := x.follow(ctx, a, r, cursor)
		if i == 0 {
			f.until(p.Lines[len(p.Lines)-1])
		}
		cancel()
		outputs, _, err := f.end()
		x.ErrorIs(err, context.Canceled)
		if !x.h.NoResume {
			taken = append(taken, outputs...)
			if len(taken) > 0 {
				cursor = taken[len(taken)-1].Cursor
			}
		}
	}
	f := x.follow(x.ctx, a, r, cursor)
	x.stopped(a, r, f) // the run was active all the time
	rest, _, _ := f.end()
	x.says(append(taken, rest...), p.Lines...)
}

func interrupt(x *fixture) {
	a := x.ready()
	r, f := x.working(a, x.h.Prompts.Works)
	o := x.stopped(a, r, f)
	_, same := x.whole(a, r)
	x.Equal(o, same)
	x.completes(a, x.dispatch(a, x.h.Prompts.Says), x.h.Prompts.Says)
}

func interruptAtOnce(x *fixture) {
	for _, force := range []bool{false, true} {
		a := x.ready()
		r := x.dispatch(a, x.h.Prompts.Works)
		x.NoError(x.b.Connect(a).Interrupt(x.ctx, r, force))
		_, o := x.whole(a, r)
		x.Equal(fleet.TaskStopped, o.Status, "kill %v: %+v", force, o)
	}
}

func interruptEnded(x *fixture) {
	a := x.ready()
	r := x.dispatch(a, x.h.Prompts.Says)
	_, o := x.completes(a, r, x.h.Prompts.Says)
	next, f := x.working(a, x.h.Prompts.Works)
	for _, force := range []bool{false, true} {
		x.NoError(x.b.Connect(a).Interrupt(x.ctx, r, force))
	}
	_, same := x.completes(a, r, x.h.Prompts.Says)
	x.Equal(o, same)
	x.reason(x.b.Connect(a).Dispatch(x.ctx, x.run(x.h.Prompts.Says)), fleet.ReasonAgentBusy) // the interrupt did not affect the next run
	x.stopped(a, next, f)
	x.NoError(x.b.Connect(a).Interrupt(x.ctx, next, false))
	x.NoError(x.b.Connect(a).Interrupt(x.ctx, next, true))
}

func kill(x *fixture) {
	a := x.ready()
	p := x.h.Prompts.Works
	if x.h.Prompts.IgnoresInterrupt.Text != "" {
		p = x.h.Prompts.IgnoresInterrupt
	}
	r, f := x.working(a, p)
	if p.Reply != "" {
		x.NoError(x.b.Connect(a).Interrupt(x.ctx, r, false))
		f.until(p.Reply)
		x.reason(x.b.Connect(a).Dispatch(x.ctx, x.run(x.h.Prompts.Says)), fleet.ReasonAgentBusy)
	}
	x.NoError(x.b.Connect(a).Interrupt(x.ctx, r, true))
	_, o, err := f.end()
	x.NoError(err)
	x.Equal(fleet.TaskStopped, o.Status, "outcome: %+v", o)
	x.completes(a, x.dispatch(a, x.h.Prompts.Says), x.h.Prompts.Says)
}

func timeLimit(x *fixture) { x.limited(x.h.Prompts.Works) }

func timeLimitDeaf(x *fixture) {
	x.need(x.h.Prompts.IgnoresInterrupt, "agents that ignore an interrupt")
	x.limited(x.h.Prompts.IgnoresInterrupt)
}

func (x *fixture) limited(p Prompt) {
	x.Helper()
	a := x.ready()
	r := x.run(p)
	r.Timeout = x.h.TimeLimit
	x.NoError(x.b.Connect(a).Dispatch(x.ctx, r))
	_, o := x.whole(a, r)
	x.overtime(o)
	x.completes(a, x.dispatch(a, x.h.Prompts.Says), x.h.Prompts.Says)
}

// overtime requires that the run has failed, with a reason that contains the time limit.
func (x *fixture) overtime(o fleet.Outcome) {
	x.Helper()
	x.failed(o)
	x.Contains(o.Reason, x.h.TimeLimit.String())
}

func send(x *fixture) {
	a := x.ready()
	p := x.h.Prompts.Listens
	if p.Text == "" {
		r, f := x.working(a, x.h.Prompts.Works)
		x.reason(x.b.Connect(a).Send(x.ctx, r, "message-1", "Use tabs."), fleet.ReasonUnimplemented)
		x.stopped(a, r, f)
		return
	}
	const one, two = "Use tabs; \"quotes\" $HOME 'too'.", "And be quick."
	r, f := x.working(a, p)
	x.NoError(x.b.Connect(a).Send(x.ctx, r, "message-1", one))
	x.NoError(x.b.Connect(a).Send(x.ctx, r, "message-1", one)) // a server that did not receive the first result repeats the call
	x.NoError(x.b.Connect(a).Send(x.ctx, r, "message-2", two))
	outputs, o, err := f.end()
	x.NoError(err)
	x.Equal(fleet.TaskCompleted, o.Status, "outcome: %+v", o)
	x.says(outputs, append(slices.Clone(p.Lines), one, two)...)
	x.reason(x.b.Connect(a).Send(x.ctx, r, "message-3", one), fleet.ReasonNoRunningTask)
	again, _ := x.whole(a, r)
	x.Equal(text(outputs), text(again))

	r, f = x.working(a, p) // messages of one run do not reach the next run, which can use the same message ids
	x.NoError(x.b.Connect(a).Send(x.ctx, r, "message-2", "for the second run"))
	x.NoError(x.b.Connect(a).Send(x.ctx, r, "message-1", "this too"))
	outputs, _, err = f.end()
	x.NoError(err)
	x.says(outputs, "for the second run", "this too")
	x.NotContains(text(outputs), one)
}
