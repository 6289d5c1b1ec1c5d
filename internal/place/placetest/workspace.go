package placetest

import (
	"sync"
	"time"

	"fleet/internal/fleet"
)

func traits(x *fixture) {
	x.NotEmpty(x.b.Traits().Name)
	x.GreaterOrEqual(x.b.Traits().PollInterval, time.Duration(0))
	x.GreaterOrEqual(x.b.Traits().StopGrace, time.Duration(0))
	before := x.b.Traits()
	x.ready()
	x.Equal(before, x.b.Traits())
}

// requireChecks requires that the checks are valid, and empty if Traits.ProjectChecks is not set.
func (x *fixture) requireChecks(c fleet.Checks) {
	x.Helper()
	x.NoError(c.Validate())
	if !x.b.Traits().ProjectChecks {
		x.Empty(c)
	}
}

func projects(x *fixture) {
	all, err := x.b.Projects(x.ctx)
	x.NoError(err)
	found := false
	for i, p := range all {
		x.NotEmpty(p.Name)
		if i > 0 {
			x.Less(all[i-1].Name, p.Name, "projects must be sorted and unique")
		}
		found = found || p.Name == x.h.Project

		roles, err := x.b.Roles(x.ctx, p.Name)
		x.NoError(err)
		x.NotEmpty(roles, "project %q has no role", p.Name)
		defaults, names := 0, map[string]bool{}
		x.requireChecks(p.Checks)
		for _, r := range roles {
			x.NotEmpty(r.Name)
			x.requireChecks(r.Checks)
			x.False(names[r.Name], "project %q has the role %q twice", p.Name, r.Name)
			names[r.Name] = true
			if r.Default {
				defaults++
			}
		}
		x.LessOrEqual(defaults, 1, "project %q has more than one default role", p.Name)
		if p.Name == x.h.Project {
			x.True(names[x.h.Role], "project %q has no role %q", p.Name, x.h.Role)
		}
	}
	x.True(found, "there is no project %q among %v", x.h.Project, all)

	for _, name := range []string{"no-such-project", "", "../" + x.h.Project} {
		_, err = x.b.Roles(x.ctx, name)
		x.reason(err, fleet.ReasonProjectNotFound)
	}
}

func provision(x *fixture) {
	a := x.agent()
	w, err := x.b.Provision(x.ctx, a)
	x.NoError(err)
	x.NotEmpty(w.ID)
	x.Contains([]fleet.State{fleet.StatePending, fleet.StateStarting, fleet.StateRunning}, w.State)

	// Inspect must find the workspace by the agent's uid alone, because a crash may prevent the core from recording the
	// id.
	got := x.await(a, fleet.StateRunning)
	x.Equal(w.ID, got.ID)
	x.NotEmpty(got.Location)
	a.WorkspaceID = w.ID
	x.Equal(w.ID, x.await(a, fleet.StateRunning).ID)

	his := x.listed(a)
	x.Len(his, 1)
	x.Equal(w.ID, his[0].ID)
	x.Equal(fleet.StateRunning, his[0].State)
	if his[0].AgentUID != "" {
		x.Equal(a.UID, his[0].AgentUID)
	}
	if x.b.Traits().Adopts {
		x.Equal(a.Name, his[0].Name)
		x.Equal(a.Project, his[0].Project)
		x.Equal(a.Role, his[0].Role)
		x.NotEmpty(his[0].Owner)
		x.False(his[0].CreatedAt.IsZero())
	}
}

func provisionAgain(x *fixture) {
	a := x.agent()
	first, err := x.b.Provision(x.ctx, a)
	x.NoError(err)
	second, err := x.b.Provision(x.ctx, a) // the workspace may still be starting
	x.NoError(err)
	x.Equal(first.ID, second.ID)
	x.await(a, fleet.StateRunning)
	r, f := x.working(a, x.h.Prompts.Works)
	third, err := x.b.Provision(x.ctx, a) // the agent works
	x.NoError(err)
	x.Equal(first.ID, third.ID)
	x.Len(x.listed(a), 1)
	x.stopped(a, r, f)
}

func provisionMany(x *fixture) {
	agents := make([]fleet.Agent, 8)
	errs := make([]error, len(agents))
	var wg sync.WaitGroup
	for i := range agents {
		agents[i] = x.agent()
		wg.Go(func() {
			w, err := x.b.Provision(x.ctx, agents[i])
			agents[i].WorkspaceID, errs[i] = w.ID, err
			if _, err := x.b.List(x.ctx); err != nil && errs[i] == nil {
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
		x.Len(x.listed(a), 1)
	}
	x.Len(ids, len(agents), "every agent must have its own workspace")
}

func provisionUnknownProject(x *fixture) {
	a := x.agent()
	a.Project, a.Config = "no-such-project", nil
	_, err := x.b.Provision(x.ctx, a)
	x.reason(err, fleet.ReasonProvisioningFailed)
	x.Empty(x.listed(a))
	w, err := x.b.Inspect(x.ctx, a)
	x.NoError(err)
	x.Equal(fleet.StateDeleted, w.State)
}

func provisionTakenName(x *fixture) {
	a, other := x.ready(), x.agent()
	other.Name = a.Name
	w, err := x.b.Provision(x.ctx, other)
	if err != nil || x.b.Traits().UniqueNames {
		x.reason(err, fleet.ReasonAgentExists)
		x.Empty(x.listed(other))
	} else {
		x.NotEqual(a.WorkspaceID, w.ID)
	}
	x.Equal(a.WorkspaceID, x.await(a, fleet.StateRunning).ID)

	// An agent whose name was refused must not be able to delete the workspace of the agent with that name.
	_, err = x.b.Delete(x.ctx, other)
	x.NoError(err)
	x.Equal(a.WorkspaceID, x.await(a, fleet.StateRunning).ID)
}

func inspectNothing(x *fixture) {
	a := x.agent()
	w, err := x.b.Inspect(x.ctx, a)
	x.NoError(err)
	x.Equal(fleet.StateDeleted, w.State)
	x.Empty(x.listed(a))
}

func startAndStop(x *fixture) {
	a := x.ready()
	for range 2 {
		for range 2 {
			x.NoError(x.b.Stop(x.ctx, a))
			x.Equal(a.WorkspaceID, x.await(a, fleet.StateStopped).ID)
		}
		x.Len(x.listed(a), 1)
		x.Equal(fleet.StateStopped, x.listed(a)[0].State)
		for range 2 {
			x.NoError(x.b.Start(x.ctx, a))
			x.Equal(a.WorkspaceID, x.await(a, fleet.StateRunning).ID)
		}
	}
	x.completes(a, x.dispatch(a, x.h.Prompts.Says), x.h.Prompts.Says)
}

func startRunning(x *fixture) {
	a := x.ready()
	r, f := x.working(a, x.h.Prompts.Works)
	x.NoError(x.b.Start(x.ctx, a))
	x.reason(x.b.Connect(a).Dispatch(x.ctx, x.run(x.h.Prompts.Says)), fleet.ReasonAgentBusy)
	x.stopped(a, r, f)
}

func stopEndsRuns(x *fixture) {
	a := x.ready()
	before := x.dispatch(a, x.h.Prompts.Says)
	said, outcome := x.completes(a, before, x.h.Prompts.Says)

	_, f := x.working(a, x.h.Prompts.Works)
	x.NoError(x.b.Stop(x.ctx, a))
	_, o, err := f.end()
	x.NoError(err)
	x.cutShort(o)
	x.await(a, fleet.StateStopped)

	x.NoError(x.b.Start(x.ctx, a))
	x.await(a, fleet.StateRunning)
	again, same := x.whole(a, before)
	x.Equal(text(said), text(again))
	x.Equal(outcome, same)
	x.completes(a, x.dispatch(a, x.h.Prompts.Says), x.h.Prompts.Says)
}

// cutShort requires that a run whose workspace was stopped or deleted has the status stopped or failed.
func (x *fixture) cutShort(o fleet.Outcome) {
	x.Helper()
	if o.Status != fleet.TaskStopped {
		x.failed(o)
	}
}

func deleteTwice(x *fixture) {
	a := x.ready()
	x.completes(a, x.dispatch(a, x.h.Prompts.Says), x.h.Prompts.Says)
	for range 2 {
		_, err := x.b.Delete(x.ctx, a)
		x.NoError(err)
		w, err := x.b.Inspect(x.ctx, a)
		x.NoError(err)
		x.Equal(fleet.StateDeleted, w.State)
		x.Empty(x.listed(a))
	}
	x.reason(x.b.Connect(a).Dispatch(x.ctx, x.run(x.h.Prompts.Says)), fleet.ReasonAgentOffline)

	stopped := x.ready()
	x.NoError(x.b.Stop(x.ctx, stopped))
	x.await(stopped, fleet.StateStopped)
	_, err := x.b.Delete(x.ctx, stopped)
	x.NoError(err)
	x.Empty(x.listed(stopped))

	starting := x.agent()
	_, err = x.b.Provision(x.ctx, starting)
	x.NoError(err)
	_, err = x.b.Delete(x.ctx, starting)
	x.NoError(err)
	w, err := x.b.Inspect(x.ctx, starting)
	x.NoError(err)
	x.Equal(fleet.StateDeleted, w.State)
}

func deleteNothing(x *fixture) {
	a := x.agent()
	kept, err := x.b.Delete(x.ctx, a)
	x.NoError(err)
	x.Empty(kept)
}

func deleteEndsRuns(x *fixture) {
	for _, p := range []Prompt{x.h.Prompts.Works, x.h.Prompts.IgnoresInterrupt} {
		if p.Text == "" {
			continue
		}
		a := x.ready()
		_, f := x.working(a, p)
		_, err := x.b.Delete(x.ctx, a)
		x.NoError(err)
		_, o, err := f.end()
		if fleet.ReasonOf(err) != fleet.ReasonTaskNotFound { // Follow returns this if it connects only after the deletion
			x.NoError(err)
			x.cutShort(o)
		}
		x.Empty(x.listed(a))
	}
}

func deleteThenSameName(x *fixture) {
	old := x.ready()
	x.completes(old, x.dispatch(old, x.h.Prompts.Says), x.h.Prompts.Says)
	_, err := x.b.Delete(x.ctx, old)
	x.NoError(err)

	a := x.agent()
	a.Name = old.Name
	w, err := x.b.Provision(x.ctx, a)
	x.NoError(err)
	x.NotEqual(old.WorkspaceID, w.ID)
	x.await(a, fleet.StateRunning)
	w, err = x.b.Inspect(x.ctx, old)
	x.NoError(err)
	x.Equal(fleet.StateDeleted, w.State)
	_, err = x.b.Delete(x.ctx, old)
	x.NoError(err)
	x.await(a, fleet.StateRunning)
	x.completes(a, x.dispatch(a, x.h.Prompts.Says), x.h.Prompts.Says)
}

func log(x *fixture) {
	if x.h.NoLog {
		x.Skip("workspaces have no log")
	}
	a := x.ready()
	x.completes(a, x.dispatch(a, x.h.Prompts.Says), x.h.Prompts.Says)
	all, more, err := x.b.Log(x.ctx, a, 10000)
	x.NoError(err)
	x.False(more)
	x.NotEmpty(all)
	for _, line := range all {
		x.NotContains(line, "\n")
	}
	for n := range len(all) + 1 {
		lines, more, err := x.b.Log(x.ctx, a, n)
		x.NoError(err)
		x.Len(lines, n)
		x.Equal(append([]string{}, all[len(all)-n:]...), append([]string{}, lines...))
		x.Equal(n < len(all), more, "Log of %d lines must say whether the log has more; it has %d lines", n, len(all))
	}
}
