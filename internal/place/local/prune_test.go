package local_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// leftoverLines describes each leftover in a line: its kind, agent, count and proof, and whether it was removed or has a problem.
func leftoverLines(all []fleet.Leftover, names map[string]string) (lines []string) {
	for _, l := range all {
		line := fmt.Sprintf("%s of %s: %d %s", l.Kind, names[l.AgentUID], l.Count, l.Proof)
		if l.Removed {
			line += ", removed"
		}
		if l.Problem != "" {
			line += ", problem"
		}
		lines = append(lines, line)
	}
	return lines
}

// TestPrune checks which leftovers of deleted agents are listed, and which of them are removed, with and without IncludeUnproved.
func TestPrune(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	w, repo := newRepositoryPlace(t, "")
	names := map[string]string{}
	runAgent := func(name, script string) (fleet.Agent, *fleet.Changes, fleet.Run) {
		a := w.provisionIn("repo")
		names[a.UID] = name
		r := w.start(a, script)
		_, o := w.follow(a, r)
		require.Equal(t, fleet.TaskCompleted, o.Status, "%+v", o)
		c := w.changes(a, r)
		return a, c, r
	}
	commitScript := func(name string) string {
		return strings.ReplaceAll("echo NAME >NAME; git add .; git commit -qm NAME", "NAME", name)
	}
	// Each agent is named after the state of its work when Prune is called.
	merged, _, _ := runAgent("merged", commitScript("merged"))
	squashed, landed, _ := runAgent("squashed", commitScript("squashed"))
	lost, _, _ := runAgent("lost", commitScript("lost"))
	kept, _, _ := runAgent("kept", commitScript("kept")+"; echo dirty >dirty")
	used, _, _ := runAgent("used", commitScript("used"))
	alive, aliveWork, aliveRun := runAgent("alive", commitScript("alive"))
	_, _, running := runAgent("running", "true") // an agent whose task is not in the list
	for _, a := range []fleet.Agent{merged, squashed, lost, kept, used} {
		w.remove(a)
	}
	runScript(t, repo, "git merge -q --no-edit "+branchOf(merged)+"; git merge -q --no-edit "+aliveWork.Commit+"; git worktree add -q ../used-"+used.UID[:8]+" "+branchOf(used)+"; git update-ref refs/fleet/other-server/last HEAD")
	q := fleet.PruneQuery{Before: time.Now().Add(time.Hour), SettledCommits: []string{landed.Commit}, EndedTaskIDs: []string{aliveRun.TaskID}, DryRun: true}
	q.FindDeleted = func(_ context.Context, uids []string) (known []fleet.DeletedAgent, err error) {
		require.Contains(t, uids, "other-server")
		for _, a := range []fleet.Agent{merged, squashed, lost, kept, used} {
			if slices.Contains(uids, a.UID) {
				known = append(known, fleet.DeletedAgent{UID: a.UID, Name: a.Name})
			}
		}
		return known, nil
	}
	refs := func() string { return runScript(t, repo, "git for-each-ref") }
	before := refs()
	all, err := w.Prune(w.ctx, q)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{
		// the refs of an agent are base, its task, the base of the task, last and last.head
		"snapshots of merged: 5 elsewhere", "branches of merged: 1 elsewhere", "snapshots of squashed: 2 elsewhere", "snapshots of squashed: 3 settled", "branches of squashed: 1 settled",
		"snapshots of lost: 2 elsewhere", "snapshots of lost: 3 unproved", "branches of lost: 1 unproved", "snapshots of used: 2 elsewhere", "snapshots of used: 3 unproved", "branches of used: 1 unproved",
		"snapshots of alive: 2 elsewhere", "home of kept: 1 unproved",
	}, leftoverLines(all, names))
	none, err := w.ModelPlace().Prune(w.ctx, q)
	require.NoError(t, err)
	require.Empty(t, none, "the place of the agents on models has the same directory, but none of these agents")
	_, err = w.ModelPlace().Repository("repo")
	requireReason(t, err, fleet.ReasonUnimplemented)
	require.Equal(t, before, refs())
	size := map[string]int64{}
	for _, l := range all {
		require.Equal(t, "repo", l.Project)
		require.NotEmpty(t, l.Reason)
		if l.Proof == fleet.LeftoverElsewhere {
			require.Zero(t, l.Size, "%+v", l)
		}
		size[names[l.AgentUID]] += l.Size
		require.False(t, l.Newest.IsZero())
	}
	require.Positive(t, size["squashed"])
	require.Positive(t, size["lost"])
	require.Zero(t, size["merged"])

	early := q
	early.Before = time.Now().Add(-time.Hour)
	all, err = w.Prune(w.ctx, early)
	require.NoError(t, err)
	require.Empty(t, all, "no leftover is that old")

	q.DryRun = false
	all, err = w.Prune(w.ctx, q)
	require.NoError(t, err)
	for _, l := range all {
		require.Equal(t, l.Proof != fleet.LeftoverUnproved, l.Removed, "%+v", l)
		require.Empty(t, l.Problem)
	}
	runScript(t, repo, "git reflog expire --expire=now --all; git gc -q --prune=now; git fsck --no-dangling; git show "+branchOf(lost)+":lost; git show "+branchOf(kept)+":kept; git rev-parse refs/fleet/other-server/last "+branchOf(used))
	require.NotContains(t, refs(), branchOf(merged))
	require.NotContains(t, refs(), branchOf(squashed))
	w.mustRun(alive, "git log --oneline | wc -l; echo more >more; git add .; git commit -qm more")
	text, _, err := w.Connect(alive).Patch(w.ctx, *aliveWork, "", 0, 1000)
	require.NoError(t, err)
	require.Contains(t, string(text), "alive")

	q.IncludeUnproved = true
	all, err = w.Prune(w.ctx, q)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{
		"snapshots of lost: 3 unproved, removed", "branches of lost: 1 unproved, removed", "snapshots of used: 3 unproved, problem", "branches of used: 1 unproved, problem", "home of kept: 1 unproved, removed",
	}, leftoverLines(all, names))
	require.NoDirExists(t, w.dir+"/kept/"+kept.UID)
	all, err = w.Prune(w.ctx, q)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{
		"snapshots of used: 3 unproved, problem", "branches of used: 1 unproved, problem", "snapshots of kept: 2 elsewhere, removed", "snapshots of kept: 3 unproved, removed", "branches of kept: 1 unproved, removed",
	}, leftoverLines(all, names))
	require.Contains(t, refs(), running.TaskID)
	require.Contains(t, refs(), "refs/fleet/"+alive.UID+"/last")
	_, err = w.Prune(w.ctx, fleet.PruneQuery{Project: "no"})
	requireReason(t, err, fleet.ReasonProjectNotFound)
}
