package placetest

import "fleet/internal/fleet"

// hiddenWorkspace hides a workspace at the host. The workspace must not count as deleted, and must be usable when the host shows it
// again.
func hiddenWorkspace(x *fixture) {
	if x.harness.Hide == nil {
		x.Skip("nothing can hide a workspace")
	}
	a := x.readyAgent()
	r, f := x.startWorking(a, x.harness.Prompts.Works)
	show := x.harness.Hide(x.T, x.place, a)
	w := x.inspect(a)
	x.True(w.Missing, "workspace: %+v", w)
	x.Equal(fleet.StateUnhealthy, w.State)
	x.NotEmpty(w.Reason)
	x.Empty(x.list(a))
	runner := x.place.Connect(a)
	x.requireReason(runner.Interrupt(x.ctx, r, false), fleet.ReasonBackendUnavailable)
	x.requireReason(runner.Interrupt(x.ctx, r, true), fleet.ReasonBackendUnavailable)
	x.requireReason(runner.Dispatch(x.ctx, x.newRun(x.harness.Prompts.Says)), fleet.ReasonBackendUnavailable)
	x.requireReason(x.place.Stop(x.ctx, a), fleet.ReasonBackendUnavailable)
	x.requireReason(x.place.Start(x.ctx, a), fleet.ReasonBackendUnavailable)
	kept, err := x.place.Delete(x.ctx, a)
	x.NoError(err)
	x.NotEmpty(kept, "the answer must say that the workspace may exist")

	show()
	x.Equal(a.WorkspaceID, x.await(a, fleet.StateRunning).ID)
	x.Len(x.list(a), 1)
	x.interruptRun(a, r, f)
}

// otherCaller checks that every call fails while the place's requests come from another user, and that the agent and its run are
// still there when the requests come from the first user again.
func otherCaller(x *fixture) {
	if x.harness.ChangeCaller == nil {
		x.Skip("the host does not know its callers")
	}
	a := x.readyAgent()
	r := x.dispatch(a, x.harness.Prompts.Works)
	back := x.harness.ChangeCaller(x.T, x.place)
	_, err := x.place.List(x.ctx)
	x.ErrorIs(err, fleet.ErrOtherIdentity)
	x.requireReason(err, fleet.ReasonBackendUnavailable)
	_, err = x.place.Inspect(x.ctx, a)
	x.ErrorIs(err, fleet.ErrOtherIdentity)
	_, err = x.place.Provision(x.ctx, x.newAgent())
	x.ErrorIs(err, fleet.ErrOtherIdentity)
	_, err = x.place.Delete(x.ctx, a)
	x.ErrorIs(err, fleet.ErrOtherIdentity)
	x.ErrorIs(x.place.Stop(x.ctx, a), fleet.ErrOtherIdentity)
	runner := x.place.Connect(a)
	x.ErrorIs(runner.Interrupt(x.ctx, r, true), fleet.ErrOtherIdentity)
	_, _, err = x.follow(x.ctx, a, r, "").waitForEnd()
	x.ErrorIs(err, fleet.ErrOtherIdentity, "the run must not count as ended")

	back()
	x.Equal(a.WorkspaceID, x.await(a, fleet.StateRunning).ID)
	x.Len(x.list(a), 1)
	x.interruptRun(a, r, x.follow(x.ctx, a, r, ""))
}

// otherFleet gives a workspace to another Fleet. The place must report the new owner, and Start must be able to take the workspace
// over.
func otherFleet(x *fixture) {
	if x.harness.GiveAway == nil {
		x.Skip("only one Fleet can use the host")
	}
	a := x.readyAgent()
	x.Empty(x.await(a, fleet.StateRunning).Host.ForeignOwner)
	x.harness.GiveAway(x.T, x.place, a)
	w := x.inspect(a)
	x.NotEmpty(w.Host.ForeignOwner, "workspace: %+v", w)
	x.Equal(fleet.StateUnhealthy, w.State, "it must not look like an agent that can work")
	x.Contains(w.Reason, w.Host.ForeignOwner)
	listed := x.list(a)
	x.Len(listed, 1)
	x.Equal(w.Host.ForeignOwner, listed[0].Host.ForeignOwner)
	x.Equal(fleet.StateUnhealthy, listed[0].State)

	x.stop(a)
	a.Next.TakeOver = true
	x.NoError(x.place.Start(x.ctx, a))
	x.Empty(x.await(a, fleet.StateRunning).Host.ForeignOwner)
	x.Empty(x.list(a)[0].Host.ForeignOwner)
	x.completeRun(a)
}
