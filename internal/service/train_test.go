package service_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// landingPlace returns a configuration of a place whose only project has the checks and can land work.
func landingPlace(checks ...string) fake.Config {
	return fake.Config{
		Traits:   fleet.Traits{SupportsChanges: true, SupportsChecks: true, HasProjectChecks: true},
		Projects: []fake.Project{{Project: fleet.Project{Name: "Setup", Checks: fleet.Checks{Commands: checks, Retries: new(0)}}}},
	}
}

// newWork creates the agent with the number, lets it run the script, and returns the ended task.
func newWork(h *servicetest.Harness, n int, script string) *fleet.Task {
	h.T.Helper()
	name := fmt.Sprint("agent-", n)
	h.Create(name)
	return h.WaitTask(h.Start(name, script+"\ndone").ID)
}

// landings waits until each task has work that is not in the queue, and returns the work in the order of the ids.
func landings(h *servicetest.Harness, ids ...string) (all []*fleet.Landing) {
	h.T.Helper()
	h.WaitStored(func() bool {
		all = nil
		for _, id := range ids {
			shown, err := h.ShowTask(h.Context(), id, nil)
			require.NoError(h.T, err)
			if shown.Landing == nil || shown.Landing.State == fleet.LandingQueued {
				return false
			}
			all = append(all, shown.Landing)
		}
		return true
	})
	return all
}

// TestTrainDividesABatch checks that a batch that fails the checks is divided until the failing work is found.
func TestTrainDividesABatch(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, landingPlace("hasnot bad.txt"), nil)
	var ids []string
	for n := range 5 {
		script := fmt.Sprintf("change file-%d.txt x", n)
		if n == 3 {
			script = "change bad.txt x"
		}
		ids = append(ids, newWork(h, n, script).ID)
	}
	_, _, err := h.ReviewTask(h.Context(), fleet.Review{TaskID: ids[3], Verdict: fleet.VerdictApprove}, "")
	require.NoError(t, err)
	_, err = h.LandTasks(h.Context(), service.LandRequest{TaskIDs: ids, Batch: 5, NoFix: true})
	require.NoError(t, err)
	repo, err := h.FakePlace.Repository("Setup")
	require.NoError(t, err)
	for n, l := range landings(h, ids...) {
		if n == 3 {
			require.Equal(t, fleet.LandingChangesRequested, l.State)
			require.Equal(t, `on top of main, the check "hasnot bad.txt" failed with exit code 1`, l.Problem)
			continue
		}
		require.Equal(t, fleet.LandingLanded, l.State, l.Problem)
		b, err := repo.Branch(t.Context(), "")
		require.NoError(t, err)
		in, err := repo.Contains(t.Context(), b.Commit, l.Commit)
		require.NoError(t, err)
		require.True(t, in)
	}
}

// TestFailedCheckBecomesATask checks that the agent of work that fails a check on top of the branch gets a task to fix it, and that
// the work lands when that task has completed.
func TestFailedCheckBecomesATask(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, landingPlace("both a.txt b.txt fix: change c.txt x"), nil)
	one, two := newWork(h, 1, "change a.txt x"), newWork(h, 2, "change b.txt x")
	_, err := h.LandTasks(h.Context(), service.LandRequest{TaskIDs: []string{one.ID, two.ID}})
	require.NoError(t, err)
	l := landings(h, one.ID, two.ID)
	require.Equal(t, fleet.LandingLanded, l[0].State)
	h.WaitStored(func() bool { l = landings(h, two.ID); return l[0].State == fleet.LandingReplaced })
	next := h.WaitTask(l[0].NextTask)
	require.Contains(t, next.Description, "# Failed check of \"change b.txt x\" on main\n# Make a check pass")
	require.Equal(t, `Failed check of "change b.txt x" on main`, next.Title())
	require.Equal(t, fleet.LandingLanded, landings(h, next.ID)[0].State)
}

// TestTrainGivesUp checks that work leaves the queue, for people to decide, after its agent has tried in vain to fix it three times. The
// tasks before that, with which the agent has made requested changes, do not count.
func TestTrainGivesUp(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, landingPlace("both a.txt b.txt fix: change b.txt y"), nil)
	one, id := newWork(h, 1, "change a.txt x"), newWork(h, 2, "change b.txt x").ID
	for range fleet.MaxFixes {
		r, _, err := h.ReviewTask(h.Context(), fleet.Review{TaskID: id, Verdict: fleet.VerdictChanges, Text: "fix: change b.txt z"}, "")
		require.NoError(t, err)
		id = r.NextTask
		h.WaitTask(id)
	}
	require.Len(t, landings(h, id)[0].EarlierTasks, fleet.MaxFixes)
	_, err := h.LandTasks(h.Context(), service.LandRequest{TaskIDs: []string{one.ID, id}})
	require.NoError(t, err)
	tries := 0
	for ; ; tries++ {
		l := landings(h, id)[0]
		if l.NextTask == "" {
			require.Equal(t, fleet.LandingChangesRequested, l.State)
			require.Contains(t, l.Problem, "although its agent has tried 3 times to mend it")
			break
		}
		id = l.NextTask
		h.WaitTask(id)
	}
	require.Equal(t, fleet.MaxFixes, tries)
}

// TestObserveLandings checks that ObserveLandings records work that people have merged themselves as landed, and no other work.
func TestObserveLandings(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, landingPlace(), nil)
	one, two := newWork(h, 1, "change a.txt x"), newWork(h, 2, "change b.txt x")
	repo, err := h.FakePlace.Repository("Setup")
	require.NoError(t, err)
	b, err := repo.Branch(t.Context(), "")
	require.NoError(t, err)
	require.NoError(t, h.ObserveLandings(t.Context()))
	merged, err := repo.Combine(t.Context(), fleet.Combination{Contribution: fleet.Contribution{Head: landings(h, one.ID)[0].Head}, Onto: b.Commit, Strategy: fleet.Merge})
	require.NoError(t, err)
	require.NoError(t, repo.Move(t.Context(), b, merged.Commit))
	require.NoError(t, h.ObserveLandings(t.Context()))
	l := landings(h, one.ID, two.ID)
	require.Equal(t, fleet.LandingLanded, l[0].State)
	require.Equal(t, "main", l[0].Into())
	require.Equal(t, fleet.LandingBranch, l[1].State)
}

// TestTrainRefusedPush checks that work leaves the queue if the remote repository refuses the push, and that it can land once the
// push is accepted.
func TestTrainRefusedPush(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, landingPlace("has a.txt"), nil)
	id := newWork(h, 0, "change a.txt x").ID
	h.FakePlace.ProtectBranches(true)
	land := func() *fleet.Landing {
		_, err := h.LandTasks(h.Context(), service.LandRequest{TaskIDs: []string{id}})
		require.NoError(t, err)
		return landings(h, id)[0]
	}
	l := land()
	require.Equal(t, fleet.LandingReview, l.State)
	require.Equal(t, "the branch main is protected", l.Problem)
	require.Empty(t, l.Candidate)
	require.Nil(t, l.Request)
	h.FakePlace.ProtectBranches(false)
	require.Equal(t, fleet.LandingLanded, land().State)
}

// TestReviewWhileLanding requests changes to work that is landing, and lets a task end that goes on with that work. Both must leave the
// landing alone, so that its result is recorded.
func TestReviewWhileLanding(t *testing.T) {
	t.Parallel()
	recorded, proceed := make(chan struct{}), make(chan struct{})
	h := servicetest.New(t, landingPlace(), func(c *state.Config) {
		pause := sync.OnceFunc(func() {
			close(recorded)
			<-proceed
		})
		c.Fault = func(point string) {
			if point == service.FaultLandingRecorded {
				pause()
			}
		}
	})
	land := sync.OnceFunc(func() { close(proceed) })
	defer land()
	id := newWork(h, 1, "change a.txt x").ID
	h.Start("agent-1", "wait gate\ndone") // keeps the next task from starting
	changes := fleet.Review{TaskID: id, Verdict: fleet.VerdictChanges, Text: "fix: change b.txt x"}
	first, _, err := h.ReviewTask(h.Context(), changes, "")
	require.NoError(t, err)
	_, err = h.LandTasks(h.Context(), service.LandRequest{TaskIDs: []string{id}})
	require.NoError(t, err)
	<-recorded
	_, _, err = h.ReviewTask(h.Context(), changes, "")
	require.Equal(t, fleet.ReasonWorkSettled, fleet.ReasonOf(err))
	require.ErrorContains(t, err, "is landing at this moment")
	h.FakePlace.Release("gate")
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(first.NextTask).Status)
	land()
	l := landings(h, id)[0]
	require.Equal(t, fleet.LandingLanded, l.State)
	require.NotEmpty(t, l.Commit)
}

// TestFixForAGroup lands work of an agent that is shared only with a group, in the name of a member of the group. Its failed check must
// become a task of the agent.
func TestFixForAGroup(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, landingPlace("both a.txt b.txt fix: change c.txt x"), nil)
	one, two := newWork(h, 1, "change a.txt x"), newWork(h, 2, "change b.txt x")
	groups := []string{"oidc:dev"}
	for _, agent := range []string{"agent-1", "agent-2"} {
		_, _, err := h.ShareAgent(h.Context(), service.ShareRequest{Agent: agent, Grantee: fleet.Grantee{Group: groups[0]}, Access: fleet.AccessRun})
		require.NoError(t, err)
	}
	require.NoError(t, h.Store.Update(t.Context(), func(tx fleet.Tx) error {
		return tx.Insert(&fleet.Identity{Principal: "bob", Source: "oidc", SubjectID: "b", Groups: groups})
	}))
	bob := fleet.WithPrincipal(t.Context(), fleet.Principal{Name: "bob", Kind: fleet.KindHuman, Groups: groups})
	_, err := h.LandTasks(bob, service.LandRequest{TaskIDs: []string{one.ID, two.ID}})
	require.NoError(t, err)
	l := landings(h, two.ID)[0]
	require.NotEmpty(t, l.NextTask, l.Problem)
}

// TestTrainsWithoutActiveTasks checks that a train whose only work belongs to a task that still runs is not listed, because it would run
// again and again without landing anything.
func TestTrainsWithoutActiveTasks(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, landingPlace(), nil)
	done := newWork(h, 1, "change a.txt x")
	h.Create("agent-2")
	running := h.Start("agent-2", "wait gate\ndone")
	h.Reconciler.Stop() // nothing lands
	queue := func(id string) {
		l := *landings(h, done.ID)[0]
		l.TaskID, l.State, l.Request = id, fleet.LandingQueued, &fleet.LandingRequest{By: "alice", At: l.UpdatedAt, Into: "main", Batch: 1}
		require.NoError(t, h.Store.Update(t.Context(), func(tx fleet.Tx) error { return tx.Put(id, &l) }))
	}
	queue(running.ID)
	trains, err := h.Trains(t.Context())
	require.NoError(t, err)
	require.Empty(t, trains)
	queue(done.ID)
	trains, err = h.Trains(t.Context())
	require.NoError(t, err)
	require.Len(t, trains, 1)
}
