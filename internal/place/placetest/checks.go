package placetest

import (
	"context"
	"time"

	"fleet/internal/fleet"
)

func checks(x *bench) {
	c := x.h.Checks
	x.Equal(c.Fails != "", x.b.Traits().Checks)
	a := x.readyIn(x.h.Repository)
	if c.Fails == "" {
		r := x.dispatch(a, x.h.Prompts.Says)
		x.completes(a, r, x.h.Prompts.Says)
		_, err := x.b.Connect(a).Check(x.ctx, r, check("1", "true"))
		x.optional(err)
		return
	}
	_, err := x.b.Connect(a).Check(x.ctx, x.run(x.h.Prompts.Says), check("1", c.Fails))
	x.reason(err, fleet.ReasonTaskNotFound)

	r := x.dispatch(a, x.h.Prompts.Says)
	x.completes(a, r, x.h.Prompts.Says)
	x.failedCheck(a, r, check("1", c.Fails))
	res, err := x.b.Connect(a).Check(x.ctx, r, check("2", c.Sees))
	x.NoError(err)
	x.Equal(fleet.CheckFailed, res.Status, "result: %+v", res)

	late := check("3", c.Hangs)
	late.Timeout = x.h.TimeLimit
	res, err = x.b.Connect(a).Check(x.ctx, r, late)
	x.NoError(err)
	x.Equal(fleet.CheckTimedOut, res.Status, "result: %+v", res)
	x.Contains(res.Output, c.Output)
	x.Contains(res.Reason, x.h.TimeLimit.String())
	x.Nil(res.ExitCode)

	// The checks of a run see what it left, and its end is the same as before.
	next := x.dispatch(a, x.h.Prompts.Changes)
	_, before := x.whole(a, next)
	res, err = x.b.Connect(a).Check(x.ctx, next, check("2", c.Sees))
	x.NoError(err)
	x.Equal(fleet.CheckPassed, res.Status, "result: %+v", res)
	x.Zero(*res.ExitCode)
	_, after := x.whole(a, next)
	x.Equal(before, after)
	x.completes(a, x.dispatch(a, x.h.Prompts.Says), x.h.Prompts.Says)
}

// check returns a check with much time.
func check(id, command string) fleet.Check {
	return fleet.Check{ID: id, Command: command, Timeout: time.Hour}
}

// failedCheck wants the check to fail as Checks.Fails does.
func (x *bench) failedCheck(a fleet.Agent, r fleet.Run, c fleet.Check) {
	x.Helper()
	res, err := x.b.Connect(a).Check(x.ctx, r, c)
	x.NoError(err)
	x.Equal(fleet.CheckFailed, res.Status, "result: %+v", res)
	x.NotNil(res.ExitCode)
	x.Equal(3, *res.ExitCode)
	x.Equal(c.Command, res.Command)
	x.Contains(res.Output, x.h.Checks.Output)
	x.False(res.EndedAt.Before(res.StartedAt))
	again, err := x.b.Connect(a).Check(x.ctx, r, c)
	x.NoError(err)
	x.Equal(res, again, "the same check again")
}

// checking starts a check that hangs, and returns when it has begun: the agent takes no other run then. Each call that
// waits for it is cut off, later and later.
func (x *bench) checking(a fleet.Agent) (fleet.Run, fleet.Check) {
	x.Helper()
	if x.h.Checks.Hangs == "" {
		x.Skip("not supported: checks")
	}
	r, c := x.dispatch(a, x.h.Prompts.Says), check("1", x.h.Checks.Hangs)
	x.completes(a, r, x.h.Prompts.Says)
	for patience := time.Millisecond; patience < x.h.Patience; patience *= 2 {
		ctx, cancel := context.WithTimeout(x.ctx, patience)
		_, err := x.b.Connect(a).Check(ctx, r, c)
		cancel()
		x.ErrorIs(err, context.DeadlineExceeded)
		next := x.run(x.h.Prompts.Says)
		err = x.b.Connect(a).Dispatch(x.ctx, next)
		if fleet.ReasonOf(err) == fleet.ReasonAgentBusy {
			return r, c
		}
		x.NoError(err)
		x.completes(a, next, x.h.Prompts.Says)
	}
	x.FailNow("stuck", "the check of run %s does not begin", r.TaskID)
	return r, c
}

// stoppedCheck wants the check to end as one that was stopped.
func (x *bench) stoppedCheck(a fleet.Agent, r fleet.Run, c fleet.Check) {
	x.Helper()
	res, err := x.b.Connect(a).Check(x.ctx, r, c)
	x.NoError(err)
	x.Equal(fleet.CheckStopped, res.Status, "result: %+v", res)
	x.Nil(res.ExitCode)
}

func checkStopped(x *bench) {
	for _, force := range []bool{false, true} {
		a := x.ready()
		r, c := x.checking(a)
		waiting := make(chan error, 1)
		go func() {
			_, err := x.b.Connect(a).Check(x.ctx, r, c)
			waiting <- err
		}()
		x.NoError(x.b.Connect(a).Interrupt(x.ctx, r, force))
		x.NoError(<-waiting)
		x.stoppedCheck(a, r, c)
		x.completes(a, x.dispatch(a, x.h.Prompts.Says), x.h.Prompts.Says)
	}
}

func checkStoppedWithAgent(x *bench) {
	a := x.ready()
	r, c := x.checking(a)
	x.NoError(x.b.Stop(x.ctx, a))
	_, err := x.b.Connect(a).Check(x.ctx, r, c)
	if fleet.ReasonOf(err) != fleet.ReasonAgentOffline { // there may be nobody left to ask
		x.stoppedCheck(a, r, c)
	}
	x.await(a, fleet.StateStopped)
	_, err = x.b.Connect(a).Check(x.ctx, r, check("2", x.h.Checks.Fails))
	x.reason(err, fleet.ReasonAgentOffline)
}

func checkTakeOver(x *bench) {
	a := x.ready()
	r, c := x.checking(a)
	x.reopen()
	ctx, cancel := context.WithTimeout(x.ctx, x.h.TimeLimit)
	defer cancel()
	_, err := x.b.Connect(a).Check(ctx, r, c)
	x.ErrorIs(err, context.DeadlineExceeded, "it goes on")
	x.NoError(x.b.Connect(a).Interrupt(x.ctx, r, true))
	x.stoppedCheck(a, r, c)
	x.failedCheck(a, r, check("2", x.h.Checks.Fails))
}
