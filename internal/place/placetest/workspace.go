package placetest

import (
	"sync"

	"fleet/internal/fleet"
)

func provision(x *fixture) {
	a := x.newAgent()
	w := x.provision(a)
	x.NotEmpty(w.ID)
	x.Contains([]fleet.State{fleet.StatePending, fleet.StateStarting, fleet.StateRunning}, w.State)

	// Inspect must find the workspace by the agent's uid alone, because a crash may prevent Fleet from recording the id.
	got := x.await(a, fleet.StateRunning)
	x.Equal(w.ID, got.ID)
	x.NotEmpty(got.Location)
	a.WorkspaceID = w.ID
	x.Equal(w.ID, x.await(a, fleet.StateRunning).ID)

	listed := x.list(a)
	x.Len(listed, 1)
	x.Equal(w.ID, listed[0].ID)
	x.Equal(fleet.StateRunning, listed[0].State)
	if listed[0].AgentUID != "" {
		x.Equal(a.UID, listed[0].AgentUID)
	}
	if x.place.Traits().Adopts {
		x.Equal(a.Name, listed[0].Name)
		x.Equal(a.Project, listed[0].Project)
		x.Equal(a.Role, listed[0].Role)
		x.NotEmpty(listed[0].Owner)
		x.False(listed[0].CreatedAt.IsZero())
	}
}

func provisionAgain(x *fixture) {
	a := x.newAgent()
	first := x.provision(a)
	second := x.provision(a) // the workspace may still be starting
	x.Equal(first.ID, second.ID)
	x.await(a, fleet.StateRunning)
	r, f := x.startWorking(a, x.harness.Prompts.Works)
	third := x.provision(a) // the agent works
	x.Equal(first.ID, third.ID)
	x.Len(x.list(a), 1)
	x.interruptRun(a, r, f)
}

func provisionConcurrently(x *fixture) {
	agents := make([]fleet.Agent, 8)
	errs := make([]error, len(agents))
	var wg sync.WaitGroup
	for i := range agents {
		agents[i] = x.newAgent()
		wg.Go(func() {
			w, err := x.place.Provision(x.ctx, agents[i])
			agents[i].WorkspaceID, errs[i] = w.ID, err
			if _, err := x.place.List(x.ctx); err != nil && errs[i] == nil {
				errs[i] = err
			}
		})
	}
	wg.Wait()
	ids := map[string]bool{}
	for i, a := range agents {
		x.NoError(errs[i])
		ids[a.WorkspaceID] = true
		x.await(a, fleet.StateRunning)
		x.Len(x.list(a), 1)
	}
	x.Len(ids, len(agents), "every agent must have its own workspace")
}

func provisionUnknownProject(x *fixture) {
	a := x.newAgent()
	a.Project, a.Config = "no-such-project", nil
	_, err := x.place.Provision(x.ctx, a)
	x.requireReason(err, fleet.ReasonProvisioningFailed)
	x.Empty(x.list(a))
	x.Equal(fleet.StateDeleted, x.inspect(a).State)
}

func provisionTakenName(x *fixture) {
	a, other := x.readyAgent(), x.newAgent()
	other.Name = a.Name
	w, err := x.place.Provision(x.ctx, other)
	if err != nil || x.place.Traits().UniqueNames {
		x.requireReason(err, fleet.ReasonAgentExists)
		x.Empty(x.list(other))
	} else {
		x.NotEqual(a.WorkspaceID, w.ID)
	}
	x.Equal(a.WorkspaceID, x.await(a, fleet.StateRunning).ID)

	// An agent whose name was refused must not be able to delete the workspace of the agent with that name.
	x.delete(other)
	x.Equal(a.WorkspaceID, x.await(a, fleet.StateRunning).ID)
}

func inspectUnknownAgent(x *fixture) {
	a := x.newAgent()
	x.Equal(fleet.StateDeleted, x.inspect(a).State)
	x.Empty(x.list(a))
}

func startAndStop(x *fixture) {
	a := x.readyAgent()
	for range 2 {
		for range 2 {
			x.NoError(x.place.Stop(x.ctx, a))
			x.Equal(a.WorkspaceID, x.await(a, fleet.StateStopped).ID)
		}
		x.Len(x.list(a), 1)
		x.Equal(fleet.StateStopped, x.list(a)[0].State)
		for range 2 {
			x.NoError(x.place.Start(x.ctx, a))
			x.Equal(a.WorkspaceID, x.await(a, fleet.StateRunning).ID)
		}
	}
	x.completeRun(a)
}

func startRunning(x *fixture) {
	a := x.readyAgent()
	r, f := x.startWorking(a, x.harness.Prompts.Works)
	x.NoError(x.place.Start(x.ctx, a))
	x.requireReason(x.place.Connect(a).Dispatch(x.ctx, x.newRun(x.harness.Prompts.Says)), fleet.ReasonAgentBusy)
	x.interruptRun(a, r, f)
}

func stopEndsRuns(x *fixture) {
	a := x.readyAgent()
	endedRun := x.dispatch(a, x.harness.Prompts.Says)
	firstOutputs, firstOutcome := x.requireCompleted(a, endedRun, x.harness.Prompts.Says)

	_, f := x.startWorking(a, x.harness.Prompts.Works)
	x.NoError(x.place.Stop(x.ctx, a))
	_, o := f.waitForOutcome()
	x.requireCutShort(o)
	x.await(a, fleet.StateStopped)

	x.start(a)
	secondOutputs, secondOutcome := x.followWhole(a, endedRun)
	x.Equal(text(firstOutputs), text(secondOutputs))
	x.Equal(firstOutcome, secondOutcome)
	x.completeRun(a)
}

// requireCutShort checks the outcome of a run whose workspace was stopped or deleted: it must be stopped, or failed with a reason.
func (x *fixture) requireCutShort(o fleet.Outcome) {
	x.Helper()
	if o.Status != fleet.TaskStopped {
		x.requireFailed(o)
	}
}

func deleteInEachState(x *fixture) {
	a := x.readyAgent()
	x.completeRun(a)
	for range 2 {
		x.delete(a)
		x.Equal(fleet.StateDeleted, x.inspect(a).State)
		x.Empty(x.list(a))
	}
	x.requireReason(x.place.Connect(a).Dispatch(x.ctx, x.newRun(x.harness.Prompts.Says)), fleet.ReasonAgentOffline)

	stopped := x.readyAgent()
	x.stop(stopped)
	x.delete(stopped)
	x.Empty(x.list(stopped))

	starting := x.newAgent()
	x.provision(starting)
	x.delete(starting)
	x.Equal(fleet.StateDeleted, x.inspect(starting).State)
}

func deleteUnknownAgent(x *fixture) {
	a := x.newAgent()
	kept, err := x.place.Delete(x.ctx, a)
	x.NoError(err)
	x.Empty(kept)
}

func deleteEndsRuns(x *fixture) {
	for _, p := range []Prompt{x.harness.Prompts.Works, x.harness.Prompts.IgnoresInterrupt} {
		if p.Text == "" {
			continue
		}
		a := x.readyAgent()
		_, f := x.startWorking(a, p)
		x.delete(a)
		_, o, err := f.waitForEnd()
		if fleet.ReasonOf(err) != fleet.ReasonTaskNotFound { // Follow returns this if it connects only after the deletion
			x.NoError(err)
			x.requireCutShort(o)
		}
		x.Empty(x.list(a))
	}
}

func reuseName(x *fixture) {
	old := x.readyAgent()
	x.completeRun(old)
	x.delete(old)

	a := x.newAgent()
	a.Name = old.Name
	w := x.provision(a)
	x.NotEqual(old.WorkspaceID, w.ID)
	x.await(a, fleet.StateRunning)
	x.Equal(fleet.StateDeleted, x.inspect(old).State)
	x.delete(old)
	x.await(a, fleet.StateRunning)
	x.completeRun(a)
}

func log(x *fixture) {
	a := x.readyAgent()
	x.completeRun(a)
	all, more, err := x.place.Log(x.ctx, a, 10000)
	x.NoError(err)
	x.False(more)
	x.NotEmpty(all)
	for _, line := range all {
		x.NotContains(line, "\n")
	}
	for n := range len(all) + 1 {
		lines, more, err := x.place.Log(x.ctx, a, n)
		x.NoError(err)
		x.Len(lines, n)
		x.Equal(append([]string{}, all[len(all)-n:]...), append([]string{}, lines...))
		x.Equal(n < len(all), more, "Log of %d lines must say whether the log has more; it has %d lines", n, len(all))
	}
}
