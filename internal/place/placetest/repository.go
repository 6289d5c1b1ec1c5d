package placetest

import (
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/waittest"
)

// LandingProject is a project whose agents' work lands in one repository. The agents start at the branch on which their work lands.
type LandingProject struct {
	Project  string // nobody else uses its repository; empty: the place does not implement fleet.Integrator
	Prepare  string // a task that each agent does first; empty: none
	Change   string // a task that creates File
	File     string // path of a file in the repository
	Conflict string // a task that creates File with another content
	Other    string // a task that creates another file, and commits it if the place has commits
	HasBoth  string // a check that succeeds if both files exist
}

// repository lands the work of several agents in one repository, and checks the methods of fleet.Repository on the way.
func repository(x *fixture) {
	i, ok := x.place.(fleet.Integrator)
	if !ok || x.harness.Landing.Project == "" {
		x.Skip("not supported: bringing work together")
	}
	r, err := i.Repository(x.harness.Landing.Project)
	x.NoError(err)
	agents, changes, all := x.contribute()
	collectAll := func(r fleet.Repository) {
		for n, c := range changes {
			x.NoError(r.Collect(x.ctx, agents[n], c))
		}
	}
	onto, err := r.Branch(x.ctx, "")
	x.NoError(err)
	collectAll(r)
	collectAll(r) // a repeated call must succeed
	_, err = r.Branch(x.ctx, "no-such-branch")
	x.requireReason(err, fleet.ReasonBranchNotFound)

	combine := func(r fleet.Repository, c fleet.Contribution, onto string) fleet.CombineResult {
		x.Helper()
		combined, err := r.Combine(x.ctx, fleet.Combination{
			Contribution: c, Onto: onto, Strategy: fleet.Squash, Message: "Land it", Author: fleet.Person{Name: "papi"}, Committer: fleet.Person{Name: "alice"}, At: time.Unix(1795852800, 0),
		})
		x.NoError(err)
		return combined
	}
	first := combine(r, all[0], onto.Commit)
	x.Empty(first.Conflicts)
	x.NotEqual(onto.Commit, first.Commit)
	x.Equal(first.Commit, combine(r, all[0], onto.Commit).Commit, "combining the same work with the same commit again must return the same commit")
	top := combine(r, all[1], first.Commit).Commit
	conflict := combine(r, all[2], top)
	x.Empty(conflict.Commit)
	x.Len(conflict.Conflicts, 1)
	x.Equal(x.harness.Landing.File, conflict.Conflicts[0].Path)
	for _, c := range []struct {
		commit, older string
		want          bool
	}{{top, onto.Commit, true}, {top, first.Commit, true}, {onto.Commit, top, false}, {top, strings.Repeat("1", 40), false}} {
		has, err := r.Contains(x.ctx, c.commit, c.older)
		x.NoError(err)
		x.Equal(c.want, has, "%s in %s", c.older, c.commit)
	}
	pairs, err := r.Overlaps(x.ctx, onto.Commit, all)
	x.NoError(err)
	x.Len(pairs, 1)
	x.ElementsMatch([]string{all[0].Name, all[2].Name}, []string{pairs[0].A, pairs[0].B})
	x.True(pairs[0].Conflict)

	x.requireCommitChecks(r, top, onto.Commit)

	x.NoError(r.Move(x.ctx, onto, top))
	x.requireReason(r.Move(x.ctx, fleet.Branch{Name: onto.Name, Commit: onto.Commit}, first.Commit), fleet.ReasonBranchMoved)
	reopened, err := i.Repository(x.harness.Landing.Project) // like another server of the fleet
	x.NoError(err)
	movedBranch, err := reopened.Branch(x.ctx, onto.Name)
	x.NoError(err)
	x.Equal(fleet.Branch{Name: onto.Name, Commit: top}, movedBranch)
	collectAll(reopened)
	x.Equal(top, combine(reopened, all[1], top).Commit, "the branch already has all of the work")

	x.requireReason(reopened.Collect(x.ctx, agents[0], fleet.Changes{Commit: strings.Repeat("1", 40)}), fleet.ReasonChangesNotFound)
	_, err = reopened.Push(x.ctx, fleet.Push{Commit: all[0].Head, Branch: "work", Remote: "no-such-remote"})
	x.requireReason(err, fleet.ReasonRemoteNotFound)
}

// contribute lets one agent work on each of the tasks Change, Other and Conflict of Harness.Landing. It returns the agents, their
// changes and their contributions, in this order of the tasks.
func (x *fixture) contribute() (agents []fleet.Agent, changes []fleet.Changes, all []fleet.Contribution) {
	x.Helper()
	for _, prompt := range []string{x.harness.Landing.Change, x.harness.Landing.Other, x.harness.Landing.Conflict} {
		a := x.readyAgentIn(x.harness.Landing.Project)
		if x.harness.Landing.Prepare != "" {
			x.requireCompleted(a, x.dispatch(a, Prompt{Text: x.harness.Landing.Prepare}), Prompt{})
		}
		run := x.dispatch(a, Prompt{Text: prompt})
		x.requireCompleted(a, run, Prompt{})
		c, err := x.place.Connect(a).Changes(x.ctx, run)
		x.NoError(err)
		agents, changes = append(agents, a), append(changes, *c)
		all = append(all, fleet.Contribution{Name: run.TaskID, Head: c.Commit, Since: c.Base})
	}
	return agents, changes, all
}

// requireCommitChecks checks the commit top, which has the files of two agents, and the commit before, which has neither.
func (x *fixture) requireCommitChecks(r fleet.Repository, top, before string) {
	x.Helper()
	for command, want := range map[string]fleet.CheckStatus{x.harness.Landing.HasBoth: fleet.CheckPassed, x.harness.Checks.Fails: fleet.CheckFailed} {
		var results []fleet.CheckResult
		for range 2 {
			res, err := r.Check(x.ctx, top, fleet.Check{ID: "land1", Command: command, Timeout: waittest.Limit})
			x.NoError(err)
			x.Equal(want, res.Status, "%+v", res)
			results = append(results, res)
		}
		x.Equal(results[0], results[1], "a repeated check must return the first result")
	}
	res, err := r.Check(x.ctx, before, fleet.Check{ID: "land1", Command: x.harness.Landing.HasBoth, Timeout: waittest.Limit})
	x.NoError(err)
	x.Equal(fleet.CheckFailed, res.Status, "the commit does not have the work: %+v", res)
}
