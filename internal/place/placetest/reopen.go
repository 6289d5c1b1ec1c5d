package placetest

import (
	"context"
	"strings"

	"fleet/internal/fleet"
)

// closeKeepsWorld closes the place while agents work, and checks the world through another place.
func closeKeepsWorld(x *fixture) {
	a, idle, stopped := x.ready(), x.ready(), x.ready()
	x.NoError(x.b.Stop(x.ctx, stopped))
	x.await(stopped, fleet.StateStopped)
	done := x.dispatch(idle, x.h.Prompts.Says)
	said, outcome := x.completes(idle, done, x.h.Prompts.Says)
	p := x.h.Prompts.Works
	r := x.dispatch(a, p)
	ctx, cancel := context.WithCancel(x.ctx)
	f := x.follow(ctx, a, r, "")
	f.until(p.Lines[len(p.Lines)-1])
	cancel()
	taken, _, err := f.end()
	x.ErrorIs(err, context.Canceled)

	x.reopen()
	x.await(a, fleet.StateRunning)
	x.await(idle, fleet.StateRunning)
	x.await(stopped, fleet.StateStopped)
	for _, b := range []fleet.Agent{a, idle, stopped} {
		his := x.listed(b)
		x.Len(his, 1)
		x.Equal(b.WorkspaceID, his[0].ID)
	}
	again, same := x.whole(idle, done)
	x.Equal(text(said), text(again))
	x.Equal(outcome, same)

	cursor := ""
	if !x.h.NoResume {
		cursor = taken[len(taken)-1].Cursor
	} else {
		taken = nil
	}
	f = x.follow(x.ctx, a, r, cursor)
	x.stopped(a, r, f)
	rest, _, _ := f.end()
	x.says(append(taken, rest...), p.Lines...)
}

// sendTakeOver simulates servers that crash after they have sent a message. The next server repeats the message that
// was not recorded, and then sends another message with the same text.
func sendTakeOver(x *fixture) {
	p := x.h.Prompts.Listens
	x.need(p, "messages")
	a := x.ready()
	r := x.dispatch(a, p)
	ctx, cancel := context.WithCancel(x.ctx)
	f := x.follow(ctx, a, r, "")
	f.until(p.Lines[0])
	cancel()
	<-f.done
	const words = "Go on, please."
	x.NoError(x.b.Connect(a).Send(x.ctx, r, "message-1", words))
	x.reopen()
	r.Again = true
	x.NoError(x.b.Connect(a).Send(x.ctx, r, "message-1", words))
	x.reopen()
	r.Messages = []fleet.Message{{ID: "message-1", Text: words}}
	x.NoError(x.b.Connect(a).Send(x.ctx, r, "message-2", words))
	outputs, o := x.whole(a, r)
	x.Equal(fleet.TaskCompleted, o.Status, "outcome: %+v", o)
	x.Equal(2, strings.Count(text(outputs), words), "the run says:\n%s", text(outputs))
}

// takeOver simulates a server that crashes after each call. The next server repeats the call.
func takeOver(x *fixture) {
	a := x.agent()
	first, err := x.b.Provision(x.ctx, a)
	x.NoError(err)
	x.reopen()
	second, err := x.b.Provision(x.ctx, a)
	x.NoError(err)
	x.Equal(first.ID, second.ID)
	x.Len(x.listed(a), 1)
	a.WorkspaceID = first.ID
	x.await(a, fleet.StateRunning)

	r := x.dispatch(a, x.h.Prompts.Says)
	x.reopen()
	r.Again = true
	x.NoError(x.b.Connect(a).Dispatch(x.ctx, r))
	x.completes(a, r, x.h.Prompts.Says)

	x.survivesClose(a)
	_, _, err = x.follow(x.ctx, a, x.run(x.h.Prompts.Says), "").end()
	x.reason(err, fleet.ReasonTaskNotFound)

	x.NoError(x.b.Stop(x.ctx, a))
	x.reopen()
	x.NoError(x.b.Stop(x.ctx, a))
	x.await(a, fleet.StateStopped)
	x.NoError(x.b.Start(x.ctx, a))
	x.reopen()
	x.NoError(x.b.Start(x.ctx, a))
	x.await(a, fleet.StateRunning)

	_, err = x.b.Delete(x.ctx, a)
	x.NoError(err)
	x.reopen()
	_, err = x.b.Delete(x.ctx, a)
	x.NoError(err)
	x.await(a, fleet.StateDeleted)
	x.Empty(x.listed(a))
}

// survivesClose checks that a run continues while no place is open, and that the next place can stop the run.
func (x *fixture) survivesClose(a fleet.Agent) {
	x.Helper()
	r := x.dispatch(a, x.h.Prompts.Works)
	x.reopen()
	x.reason(x.b.Connect(a).Dispatch(x.ctx, x.run(x.h.Prompts.Says)), fleet.ReasonAgentBusy)
	r.Again = true
	x.NoError(x.b.Connect(a).Dispatch(x.ctx, r))
	x.NoError(x.b.Connect(a).Interrupt(x.ctx, r, true))
	x.reopen()
	_, o := x.whole(a, r)
	x.Equal(fleet.TaskStopped, o.Status, "outcome: %+v", o)
}

// timeLimitAlone checks that a run ends at its time limit while no place is open.
func timeLimitAlone(x *fixture) {
	a := x.ready()
	r := x.run(x.h.Prompts.Works)
	r.Timeout = x.h.TimeLimit
	x.NoError(x.b.Connect(a).Dispatch(x.ctx, r))
	x.reopen()
	_, o := x.whole(a, r)
	x.overtime(o)
}
