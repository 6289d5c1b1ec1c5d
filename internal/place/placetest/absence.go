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
