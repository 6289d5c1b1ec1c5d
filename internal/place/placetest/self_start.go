package placetest

import (
	"fleet/internal/fleet"
)

// selfStartingAgent creates an agent that starts to work on the prompt by itself. It returns the agent and a run for that work.
func (x *fixture) selfStartingAgent(p Prompt) (fleet.Agent, fleet.Run) {
	x.Helper()
	if x.harness.SelfStarting == "" {
		x.Skip("no project has agents that start by themselves")
	}
	all, err := x.place.Projects(x.ctx)
	x.NoError(err)
	for _, project := range all {
		x.Equal(project.Name == x.harness.SelfStarting, project.SpecIsTask, "SpecIsTask of the project %s must be true exactly if the project is Harness.SelfStarting", project.Name)
	}
	roles, err := x.place.Roles(x.ctx, x.harness.SelfStarting)
	x.NoError(err)

	r := x.newRun(p)
	r.SelfStarted = true
	a := x.newAgentOf(x.harness.SelfStarting, roles[0].Name, p.Text)
	return x.makeReady(a), r // the agent may already be working
}

func selfStart(x *fixture) {
	p := x.harness.Prompts.Says
	a, r := x.selfStartingAgent(p)
	for range 2 {
		x.NoError(x.place.Connect(a).Dispatch(x.ctx, r))
		r.Again = true
	}
	firstOutputs, firstOutcome := x.requireCompleted(a, r, p)
	x.requireCompleted(a, x.dispatch(a, p), p) // another dispatch of the same prompt is another run
	secondOutputs, secondOutcome := x.followWhole(a, r)
	x.Equal(text(firstOutputs), text(secondOutputs))
	x.Equal(firstOutcome, secondOutcome)
}

func selfStartInterrupted(x *fixture) {
	a, r := x.selfStartingAgent(x.harness.Prompts.Works)
	x.NoError(x.place.Connect(a).Dispatch(x.ctx, r))
	f := x.follow(x.ctx, a, r, "")
	f.waitForLine(x.harness.Prompts.Works.Lines[0])
	x.requireReason(x.place.Connect(a).Dispatch(x.ctx, x.newRun(x.harness.Prompts.Says)), fleet.ReasonAgentBusy)
	x.await(a, fleet.StateRunning)
	x.interruptRun(a, r, f)
	x.completeRun(a)
}

// selfStartMissing dispatches a self-started run to an agent that has not started by itself. It checks that the call
// fails and has no other effect.
func selfStartMissing(x *fixture) {
	if x.harness.SelfStarting == "" {
		x.Skip("no project has agents that start by themselves")
	}
	a := x.readyAgent()
	r := x.newRun(x.harness.Prompts.Works)
	r.SelfStarted = true
	x.requireReason(x.place.Connect(a).Dispatch(x.ctx, r), fleet.ReasonTaskNotFound)
	x.completeRun(a)
}
