package placetest

import "fleet/internal/fleet"

// hidden checks that a workspace that the host does not show does not count as deleted, and can be used when the host shows
// it again.
func hidden(x *fixture) {
	if x.h.Hide == nil {
		x.Skip("nothing can hide a workspace")
	}
	a := x.ready()
	r, f := x.working(a, x.h.Prompts.Works)
	show := x.h.Hide(x.T, x.b, a)
	w, err := x.b.Inspect(x.ctx, a)
	x.NoError(err)
	x.True(w.Missing, "workspace: %+v", w)
	x.Equal(fleet.StateUnhealthy, w.State)
	x.NotEmpty(w.Reason)
	x.Empty(x.listed(a))
	runner := x.b.Connect(a)
	x.reason(runner.Interrupt(x.ctx, r, false), fleet.ReasonBackendUnavailable)
	x.reason(runner.Interrupt(x.ctx, r, true), fleet.ReasonBackendUnavailable)
	x.reason(runner.Dispatch(x.ctx, x.run(x.h.Prompts.Says)), fleet.ReasonBackendUnavailable)
	x.reason(x.b.Stop(x.ctx, a), fleet.ReasonBackendUnavailable)
	x.reason(x.b.Start(x.ctx, a), fleet.ReasonBackendUnavailable)
	kept, err := x.b.Delete(x.ctx, a)
	x.NoError(err)
	x.NotEmpty(kept, "the answer must say that the workspace may exist")

	show()
	x.Equal(a.WorkspaceID, x.await(a, fleet.StateRunning).ID)
	x.Len(x.listed(a), 1)
	x.stopped(a, r, f)
}

// otherCaller checks that a place whose requests come from another user does nothing, believes nothing, and goes on when they
// come from the first user again.
func otherCaller(x *fixture) {
	if x.h.ChangeCaller == nil {
		x.Skip("the host does not know its callers")
	}
	a := x.ready()
	r := x.dispatch(a, x.h.Prompts.Works)
	back := x.h.ChangeCaller(x.T, x.b)
	_, err := x.b.List(x.ctx)
	x.ErrorIs(err, fleet.ErrOtherIdentity)
	x.reason(err, fleet.ReasonBackendUnavailable)
	_, err = x.b.Inspect(x.ctx, a)
	x.ErrorIs(err, fleet.ErrOtherIdentity)
	_, err = x.b.Provision(x.ctx, x.agent())
	x.ErrorIs(err, fleet.ErrOtherIdentity)
	_, err = x.b.Delete(x.ctx, a)
	x.ErrorIs(err, fleet.ErrOtherIdentity)
	x.ErrorIs(x.b.Stop(x.ctx, a), fleet.ErrOtherIdentity)
	runner := x.b.Connect(a)
	x.ErrorIs(runner.Interrupt(x.ctx, r, true), fleet.ErrOtherIdentity)
	_, _, err = x.follow(x.ctx, a, r, "").end()
	x.ErrorIs(err, fleet.ErrOtherIdentity, "the run must not count as ended")

	back()
	x.Equal(a.WorkspaceID, x.await(a, fleet.StateRunning).ID)
	x.Len(x.listed(a), 1)
	x.stopped(a, r, x.follow(x.ctx, a, r, ""))
}

// otherFleet checks that the place says whose a workspace of another Fleet is, and that starting it again takes it over.
func otherFleet(x *fixture) {
	if x.h.GiveAway == nil {
		x.Skip("only one Fleet can use the host")
	}
	a := x.ready()
	x.Empty(x.await(a, fleet.StateRunning).Host.OtherFleet)
	x.h.GiveAway(x.T, x.b, a)
	w, err := x.b.Inspect(x.ctx, a)
	x.NoError(err)
	x.NotEmpty(w.Host.OtherFleet, "workspace: %+v", w)
	x.Equal(fleet.StateUnhealthy, w.State, "it must not look like an agent that can work")
	x.Contains(w.Reason, w.Host.OtherFleet)
	his := x.listed(a)
	x.Len(his, 1)
	x.Equal(w.Host.OtherFleet, his[0].Host.OtherFleet)
	x.Equal(fleet.StateUnhealthy, his[0].State)

	x.NoError(x.b.Stop(x.ctx, a))
	x.await(a, fleet.StateStopped)
	a.Next.TakeOver = true
	x.NoError(x.b.Start(x.ctx, a))
	x.Empty(x.await(a, fleet.StateRunning).Host.OtherFleet)
	x.Empty(x.listed(a)[0].Host.OtherFleet)
	x.completes(a, x.dispatch(a, x.h.Prompts.Says), x.h.Prompts.Says)
}
