package placetest

import (
	"context"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/waittest"
)

func checks(x *fixture) {
	c := x.harness.Checks
	x.Equal(c.Fails != "", x.place.Traits().SupportsChecks)
	a := x.readyAgentIn(x.harness.Repository)
	if c.Fails == "" {
		r := x.completeRun(a)
		_, err := x.place.Connect(a).Check(x.ctx, r, check("1", "true"))
		x.allowUnimplemented(err)
		return
	}
	_, err := x.place.Connect(a).Check(x.ctx, x.newRun(x.harness.Prompts.Says), check("1", c.Fails))
	x.requireReason(err, fleet.ReasonTaskNotFound)

	r := x.completeRun(a)
	x.requireCheckFails(a, r, check("1", c.Fails))
	res, err := x.place.Connect(a).Check(x.ctx, r, check("2", c.Sees))
	x.NoError(err)
	x.Equal(fleet.CheckFailed, res.Status, "result: %+v", res)

	id := "3" // each try needs another id, because the command of a check is executed only once
	waittest.WithGrowingLimit(x.T, x.harness.TimeLimit, func(limit time.Duration) (begun bool) {
		hanging := check(id, c.Hangs)
		id += "0"
		hanging.Timeout = limit
		res, err := x.place.Connect(a).Check(x.ctx, r, hanging)
		x.NoError(err)
		x.Equal(fleet.CheckTimedOut, res.Status, "result: %+v", res)
		x.Contains(res.Reason, limit.String())
		x.Nil(res.ExitCode)
		return strings.Contains(res.Output, c.Output)
	})

	// The checks of a run see its changes. They do not affect its outcome.
	next := x.dispatch(a, x.harness.Prompts.Changes)
	_, before := x.followWhole(a, next)
	res, err = x.place.Connect(a).Check(x.ctx, next, check("2", c.Sees))
	x.NoError(err)
	x.Equal(fleet.CheckPassed, res.Status, "result: %+v", res)
	x.Zero(*res.ExitCode)
	_, after := x.followWhole(a, next)
	x.Equal(before, after)
	x.completeRun(a)
}

// check returns a check with a time limit that the suite does not reach.
func check(id, command string) fleet.Check {
	return fleet.Check{ID: id, Command: command, Timeout: time.Hour}
}

// requireCheckFails requires that the check fails like Harness.Checks.Fails, and that a repeated call returns the same result.
func (x *fixture) requireCheckFails(a fleet.Agent, r fleet.Run, c fleet.Check) {
	x.Helper()
	res, err := x.place.Connect(a).Check(x.ctx, r, c)
	x.NoError(err)
	x.Equal(fleet.CheckFailed, res.Status, "result: %+v", res)
	x.NotNil(res.ExitCode)
	x.Equal(3, *res.ExitCode)
	x.Equal(c.Command, res.Command)
	x.Contains(res.Output, x.harness.Checks.Output)
	x.False(res.EndedAt.Before(res.StartedAt))
	secondResult, err := x.place.Connect(a).Check(x.ctx, r, c)
	x.NoError(err)
	x.Equal(res, secondResult, "a repeated call must return the same result")
}

// startHangingCheck starts a check that hangs, and returns when the agent refuses other runs because of it. Check waits for
// the result, so startHangingCheck calls it with a timeout. It doubles the timeout until the check has started in time.
func (x *fixture) startHangingCheck(a fleet.Agent) (fleet.Run, fleet.Check) {
	x.Helper()
	if x.harness.Checks.Hangs == "" {
		x.Skip("not supported: checks")
	}
	r, c := x.dispatch(a, x.harness.Prompts.Says), check("1", x.harness.Checks.Hangs)
	x.requireCompleted(a, r, x.harness.Prompts.Says)
	for timeout := time.Millisecond; timeout < waittest.Limit; timeout *= 2 {
		ctx, cancel := context.WithTimeout(x.ctx, timeout)
		_, err := x.place.Connect(a).Check(ctx, r, c)
		cancel()
		x.ErrorIs(err, context.DeadlineExceeded)
		next := x.newRun(x.harness.Prompts.Says)
		err = x.place.Connect(a).Dispatch(x.ctx, next)
		if fleet.ReasonOf(err) == fleet.ReasonAgentBusy {
			return r, c
		}
		x.NoError(err)
		x.requireCompleted(a, next, x.harness.Prompts.Says)
	}
	x.FailNow("stuck", "the check of run %s did not start", r.TaskID)
	return r, c
}

// requireCheckStopped requires that the check has the status stopped.
func (x *fixture) requireCheckStopped(a fleet.Agent, r fleet.Run, c fleet.Check) {
	x.Helper()
	res, err := x.place.Connect(a).Check(x.ctx, r, c)
	x.NoError(err)
	x.Equal(fleet.CheckStopped, res.Status, "result: %+v", res)
	x.Nil(res.ExitCode)
}

func checkStopped(x *fixture) {
	for _, kill := range []bool{false, true} {
		a := x.readyAgent()
		r, c := x.startHangingCheck(a)
		waiting := make(chan error, 1)
		go func() {
			_, err := x.place.Connect(a).Check(x.ctx, r, c)
			waiting <- err
		}()
		x.NoError(x.place.Connect(a).Interrupt(x.ctx, r, kill))
		x.NoError(<-waiting)
		x.requireCheckStopped(a, r, c)
		x.completeRun(a)
	}
}

func checkStoppedWithAgent(x *fixture) {
	a := x.readyAgent()
	r, c := x.startHangingCheck(a)
	x.NoError(x.place.Stop(x.ctx, a))
	_, err := x.place.Connect(a).Check(x.ctx, r, c)
	if fleet.ReasonOf(err) != fleet.ReasonAgentOffline { // the place may be unable to reach a stopped agent
		x.requireCheckStopped(a, r, c)
	}
	x.await(a, fleet.StateStopped)
	_, err = x.place.Connect(a).Check(x.ctx, r, check("2", x.harness.Checks.Fails))
	x.requireReason(err, fleet.ReasonAgentOffline)
}

func checkTakeOver(x *fixture) {
	a := x.readyAgent()
	r, c := x.startHangingCheck(a)
	x.reopen()
	ctx, cancel := context.WithTimeout(x.ctx, x.harness.TimeLimit)
	defer cancel()
	_, err := x.place.Connect(a).Check(ctx, r, c)
	x.ErrorIs(err, context.DeadlineExceeded, "the check must continue after another place was opened")
	x.NoError(x.place.Connect(a).Interrupt(x.ctx, r, true))
	x.requireCheckStopped(a, r, c)
	x.requireCheckFails(a, r, check("2", x.harness.Checks.Fails))
}
