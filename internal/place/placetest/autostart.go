package placetest

import (
	"fleet/internal/fleet"
)

// begin creates an agent that starts to work on the prompt by itself. It returns the agent and a run for that work.
func (x *fixture) begin(p Prompt) (fleet.Agent, fleet.Run) {
	x.Helper()
	if x.h.Begins == "" {
		x.Skip("no project has agents that start by themselves")
	}
	all, err := x.b.Projects(x.ctx)
	x.NoError(err)
	for _, project := range all {
		x.Equal(project.Name == x.h.Begins, project.SpecIsTask, "SpecIsTask of the project %s must be true exactly if the project is Harness.Begins", project.Name)
	}
	roles, err := x.b.Roles(x.ctx, x.h.Begins)
	x.NoError(err)

	r := x.run(p)
	r.SelfStarted = true
	a := x.agentOf(x.h.Begins, roles[0].Name, p.Text)
	w, err := x.b.Provision(x.ctx, a)
	x.NoError(err)
	a.WorkspaceID = w.ID
	x.await(a, fleet.StateRunning) // the agent may already be working
	return a, r
}

func beginsItself(x *fixture) {
	p := x.h.Prompts.Says
	a, r := x.begin(p)
	for range 2 {
		x.NoError(x.b.Connect(a).Dispatch(x.ctx, r))
		r.Again = true
	}
	said, outcome := x.completes(a, r, p)
	x.completes(a, x.dispatch(a, p), p) // another dispatch of the same prompt is another run
	again, same := x.whole(a, r)
	x.Equal(text(said), text(again))
	x.Equal(outcome, same)
}

func beginsInterrupted(x *fixture) {
	a, r := x.begin(x.h.Prompts.Works)
	x.NoError(x.b.Connect(a).Dispatch(x.ctx, r))
	f := x.follow(x.ctx, a, r, "")
	f.until(x.h.Prompts.Works.Lines[0])
	x.reason(x.b.Connect(a).Dispatch(x.ctx, x.run(x.h.Prompts.Says)), fleet.ReasonAgentBusy)
	x.Equal(fleet.StateRunning, x.await(a, fleet.StateRunning).State)
	x.stopped(a, r, f)
	x.completes(a, x.dispatch(a, x.h.Prompts.Says), x.h.Prompts.Says)
}

// waitsWithoutTask dispatches a self-started run to an agent that has not started by itself. It checks that the call
// fails and has no other effect.
func waitsWithoutTask(x *fixture) {
	if x.h.Begins == "" {
		x.Skip("no project has agents that start by themselves")
	}
	a := x.ready()
	r := x.run(x.h.Prompts.Works)
	r.SelfStarted = true
	x.reason(x.b.Connect(a).Dispatch(x.ctx, r), fleet.ReasonTaskNotFound)
	x.completes(a, x.dispatch(a, x.h.Prompts.Says), x.h.Prompts.Says)
}
