package placetest

import (
	"strings"

	"fleet/internal/fleet"
)

// closeKeepsWorld closes the place while an agent works. Another place must find the agents and their runs.
func closeKeepsWorld(x *fixture) {
	a, idle, stopped := x.readyAgent(), x.readyAgent(), x.readyAgent()
	x.stop(stopped)
	endedRun := x.dispatch(idle, x.harness.Prompts.Says)
	firstOutputs, firstOutcome := x.requireCompleted(idle, endedRun, x.harness.Prompts.Says)
	p := x.harness.Prompts.Works
	r := x.dispatch(a, p)
	outputsSoFar := x.followUntil(a, r, p.Lines[len(p.Lines)-1])

	x.reopen()
	x.await(a, fleet.StateRunning)
	x.await(idle, fleet.StateRunning)
	x.await(stopped, fleet.StateStopped)
	for _, b := range []fleet.Agent{a, idle, stopped} {
		listed := x.list(b)
		x.Len(listed, 1)
		x.Equal(b.WorkspaceID, listed[0].ID)
	}
	secondOutputs, secondOutcome := x.followWhole(idle, endedRun)
	x.Equal(text(firstOutputs), text(secondOutputs))
	x.Equal(firstOutcome, secondOutcome)

	f := x.follow(x.ctx, a, r, outputsSoFar[len(outputsSoFar)-1].Cursor)
	x.interruptRun(a, r, f)
	rest, _, _ := f.waitForEnd()
	x.requireLines(append(outputsSoFar, rest...), p.Lines...)
}

// sendTakeOver simulates servers that crash after they have sent a message. The next server repeats the message that
// was not recorded, and then sends another message with the same text.
func sendTakeOver(x *fixture) {
	p := x.harness.Prompts.Listens
	x.skipUnlessSet(p, "messages")
	a := x.readyAgent()
	r := x.dispatch(a, p)
	x.followUntil(a, r, p.Lines[0])
	const words = "Go on, please."
	x.NoError(x.place.Connect(a).Send(x.ctx, r, "message-1", words))
	x.reopen()
	r.Again = true
	x.NoError(x.place.Connect(a).Send(x.ctx, r, "message-1", words))
	x.reopen()
	r.Messages = []fleet.Message{{ID: "message-1", Text: words}}
	x.NoError(x.place.Connect(a).Send(x.ctx, r, "message-2", words))
	outputs, o := x.followWhole(a, r)
	x.Equal(fleet.TaskCompleted, o.Status, "outcome: %+v", o)
	x.Equal(2, strings.Count(text(outputs), words), "the run says:\n%s", text(outputs))
}

// takeOver simulates a server that crashes after each call. The next server repeats the call.
func takeOver(x *fixture) {
	a := x.newAgent()
	first := x.provision(a)
	x.reopen()
	second := x.provision(a)
	x.Equal(first.ID, second.ID)
	x.Len(x.list(a), 1)
	a.WorkspaceID = first.ID
	x.await(a, fleet.StateRunning)

	r := x.dispatch(a, x.harness.Prompts.Says)
	x.reopen()
	r.Again = true
	x.NoError(x.place.Connect(a).Dispatch(x.ctx, r))
	x.requireCompleted(a, r, x.harness.Prompts.Says)

	x.requireSurvivesClose(a)
	_, _, err := x.follow(x.ctx, a, x.newRun(x.harness.Prompts.Says), "").waitForEnd()
	x.requireReason(err, fleet.ReasonTaskNotFound)

	x.NoError(x.place.Stop(x.ctx, a))
	x.reopen()
	x.stop(a)
	x.NoError(x.place.Start(x.ctx, a))
	x.reopen()
	x.start(a)

	x.delete(a)
	x.reopen()
	x.delete(a)
	x.await(a, fleet.StateDeleted)
	x.Empty(x.list(a))
}

// requireSurvivesClose checks that a run continues after its place was closed, and that the next place can end the run.
func (x *fixture) requireSurvivesClose(a fleet.Agent) {
	x.Helper()
	r := x.dispatch(a, x.harness.Prompts.Works)
	x.reopen()
	x.requireReason(x.place.Connect(a).Dispatch(x.ctx, x.newRun(x.harness.Prompts.Says)), fleet.ReasonAgentBusy)
	r.Again = true
	x.NoError(x.place.Connect(a).Dispatch(x.ctx, r))
	x.NoError(x.place.Connect(a).Interrupt(x.ctx, r, true))
	x.reopen()
	_, o := x.followWhole(a, r)
	x.Equal(fleet.TaskStopped, o.Status, "outcome: %+v", o)
}

// timeLimitAfterReopen checks that the time limit of a run holds after the place that has dispatched the run was closed.
func timeLimitAfterReopen(x *fixture) {
	a := x.readyAgent()
	r := x.newRun(x.harness.Prompts.Works)
	r.Timeout = x.harness.TimeLimit
	x.NoError(x.place.Connect(a).Dispatch(x.ctx, r))
	x.reopen()
	_, o := x.followWhole(a, r)
	x.requireTimedOut(o)
}
