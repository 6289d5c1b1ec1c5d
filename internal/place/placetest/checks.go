package placetest

import (
	"context"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/waittest"
)

func checks(x *fixture) {
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

	id := "3"
	waittest.WithGrowingLimit(x.T, x.h.TimeLimit, func(limit time.Duration) (begun bool) {
		late := check(id, c.Hangs)
		id += "0"
		late.Timeout = limit
		res, err := x.b.Connect(a).Check(x.ctx, r, late)
		x.NoError(err)
		x.Equal(fleet.CheckTimedOut, res.Status, "result: %+v", res)
		x.Contains(res.Reason, limit.String())
		x.Nil(res.ExitCode)
		return strings.Contains(res.Output, c.Output)
	})

	// The checks of a run see its changes. They do not affect its outcome.
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

// check returns a check with a long time limit.
func check(id, command string) fleet.Check {
	return fleet.Check{ID: id, Command: command, Timeout: time.Hour}
}

// failedCheck requires that the check fails like Checks.Fails, and that a repeated call returns the same result.
func (x *fixture) failedCheck(a fleet.Agent, r fleet.Run, c fleet.Check) {
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
	x.Equal(res, again, "a repeated call must return the same result")
}

// checking starts a check that hangs. It returns when the check is active, so that the agent refuses other runs. Check
// waits for the result, so checking interrupts each call, a little later each time.
func (x *fixture) checking(a fleet.Agent) (fleet.Run, fleet.Check) {
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
	x.FailNow("stuck", "the check of run %s did not start", r.TaskID)
	return r, c
}

// stoppedCheck requires that the check has the status stopped.
func (x *fixture) stoppedCheck(a fleet.Agent, r fleet.Run, c fleet.Check) {
	x.Helper()
	res, err := x.b.Connect(a).Check(x.ctx, r, c)
	x.NoError(err)
	x.Equal(fleet.CheckStopped, res.Status, "result: %+v", res)
	x.Nil(res.ExitCode)
}

func checkStopped(x *fixture) {
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

func checkStoppedWithAgent(x *fixture) {
	a := x.ready()
	r, c := x.checking(a)
	x.NoError(x.b.Stop(x.ctx, a))
	_, err := x.b.Connect(a).Check(x.ctx, r, c)
	if fleet.ReasonOf(err) != fleet.ReasonAgentOffline { // the place may be unable to reach a stopped agent
		x.stoppedCheck(a, r, c)
	}
	x.await(a, fleet.StateStopped)
	_, err = x.b.Connect(a).Check(x.ctx, r, check("2", x.h.Checks.Fails))
	x.reason(err, fleet.ReasonAgentOffline)
}

func checkTakeOver(x *fixture) {
	a := x.ready()
	r, c := x.checking(a)
	x.reopen()
	ctx, cancel := context.WithTimeout(x.ctx, x.h.TimeLimit)
	defer cancel()
	_, err := x.b.Connect(a).Check(ctx, r, c)
	x.ErrorIs(err, context.DeadlineExceeded, "the check must continue after the place was opened again")
	x.NoError(x.b.Connect(a).Interrupt(x.ctx, r, true))
	x.stoppedCheck(a, r, c)
	x.failedCheck(a, r, check("2", x.h.Checks.Fails))
}
