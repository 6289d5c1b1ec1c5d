package worktree

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/runner/sandbox"
	"fleet/internal/waittest"
)

// TestRefLimit checks that the limit of refs holds for all collections together, that the agent's current branch is always
// collected, and that the same refs are chosen each time.
func TestRefLimit(t *testing.T) {
	t.Parallel()
	g, tree := beginTask(t)
	fill := func(prefix string) {
		sh(t, tree.Dir, fmt.Sprintf(`oid=$(git commit-tree -m more -p HEAD HEAD^{tree}); seq -f "create refs/heads/%s%%04.0f $oid" 1500 | git update-ref --stdin`, prefix))
	}
	fill("m")
	sh(t, tree.Dir, "git checkout -q -b z; git commit -q --allow-empty -m mine")
	for range 2 {
		c := mustSnapshot(t, g, tree, "task")
		require.Equal(t, "z", c.Branch)
		require.Equal(t, []string{"502 branches and tags (the repository gets at most 1000 of an agent)"}, c.LeftOut)
		require.False(t, c.Dirty)
	}
	have := strings.Fields(sh(t, tree.Repository, "git for-each-ref --format='%(refname:short)' refs/heads"))
	require.Equal(t, []string{"fleet/papi-1", "m0001", "m0998", "main", "z"}, []string{have[0], have[1], have[998], have[999], have[1000]})
	sh(t, tree.Dir, "git for-each-ref --format='delete %(refname)' refs/heads/m* | git update-ref --stdin")
	fill("k")
	sh(t, tree.Dir, "git checkout -q -b y; git commit -q --allow-empty -m last")
	c := mustSnapshot(t, g, tree, "task")
	require.Equal(t, "y", c.Branch)
	require.Len(t, strings.Fields(sh(t, tree.Repository, "git for-each-ref --format='%(refname:short)' refs/heads")), 1002, "only the current branch is new")
	w := mustExamine(t, g, tree)
	require.Contains(t, strings.Join(w.Unsaved, ","), "commit on no branch")
}

// TestLongListOfRefs checks that the current branch is collected although the agent has more refs than the server keeps in memory.
func TestLongListOfRefs(t *testing.T) {
	t.Parallel()
	g, tree := beginTask(t)
	sh(t, tree.Dir, `git checkout -q -b mine; git commit -q --allow-empty -m work; oid=$(git rev-parse HEAD); name=$(printf 'x%.0s' $(seq 200))
		{ echo '# pack-refs with: peeled fully-peeled sorted'; seq -f "$oid refs/heads/mine2/$name-%07.0f" 200000; } >"$(git rev-parse --git-dir)/packed-refs"`)
	c := mustSnapshot(t, g, tree, "task")
	require.Equal(t, "mine", c.Branch)
	require.Len(t, c.LeftOut, 1)
	require.Contains(t, c.LeftOut[0], "branches and tags")
}

// TestUnreadableRefs checks that the current branch is collected although git cannot list the agent's refs.
func TestUnreadableRefs(t *testing.T) {
	t.Parallel()
	if err := sandbox.Available(); err != nil {
		t.Skip(err)
	}
	for pipe, want := range map[string]string{"heads/x": "other branches and tags (git did not end", "remotes/x": ""} {
		waittest.WithGrowingLimit(t, 2*time.Second, func(limit time.Duration) bool {
			g, tree := beginTask(t)
			head := strings.TrimSpace(sh(t, tree.Dir, "git commit -q --allow-empty -m work; git rev-parse HEAD; mkdir -p ../git/refs/remotes; mkfifo ../git/refs/"+pipe))
			g.timeout = limit
			c, err := g.Snapshot(t.Context(), tree, "task")
			if err != nil {
				require.ErrorContains(t, err, "git did not end")
				return false
			}
			leftOut := strings.Join(c.LeftOut, "\n")
			if strings.Count(leftOut, "git did not end") > strings.Count(want, "git did not end") {
				return false // a git that can end had too little time
			}
			require.Contains(t, leftOut, want)
			require.False(t, c.Pushed)
			require.Equal(t, head, revision(t, tree.Repository, tree.Branch))
			return true
		})
	}
}

// TestBrokenBranchIsReported checks that the agent's other branches count as left out if one of them has missing objects, because
// then none of them is collected.
func TestBrokenBranchIsReported(t *testing.T) {
	t.Parallel()
	g, tree := beginTask(t)
	sh(t, tree.Dir, `git commit -q --allow-empty -m good; git branch other $(git commit-tree -m other -p HEAD HEAD^{tree})
		git update-ref refs/heads/broken $(git commit-tree -p HEAD -m broken $(echo broken | git hash-object -w --stdin | xargs printf '100644 blob %s\tf\n' | git mktree))
		find ../git/objects -name "$(git rev-parse broken^{tree} | cut -c3-)" -delete`)
	c := mustSnapshot(t, g, tree, "task")
	require.Len(t, c.LeftOut, 1)
	require.Contains(t, c.LeftOut[0], "2 other branches and tags (")
	require.Equal(t, "fleet/papi-1 good\nmain one\n", sh(t, tree.Repository, "git for-each-ref --format='%(refname:short) %(subject)' refs/heads"))
	require.Contains(t, strings.Join(mustExamine(t, g, tree).Unsaved, "\n"), "2 other branches and tags (")
}

// TestLockedRef checks that a branch that the repository cannot take, for example because a killed git has left a lock,
// does not prevent collecting the other branches and its own commits.
func TestLockedRef(t *testing.T) {
	t.Parallel()
	g, tree := beginTask(t)
	sh(t, tree.Repository, "touch .git/refs/heads/more.lock; mkdir -p .git/refs/fleet/agent/tags; touch .git/refs/fleet/agent/tags/v1.lock")
	head := strings.TrimSpace(sh(t, tree.Dir, "git commit -q --allow-empty -m one; git checkout -q -b more; git commit -q --allow-empty -m two; git tag v1; git rev-parse HEAD"))
	for range 2 {
		c := mustSnapshot(t, g, tree, "task")
		require.Equal(t, "refs/fleet/agent/heads/more", c.Branch)
		require.Len(t, c.LeftOut, 1)
		require.Contains(t, c.LeftOut[0], "1 branch or tag (cannot lock ref")
		require.Equal(t, "fleet/papi-1 one\nmain one\n", sh(t, tree.Repository, "git for-each-ref --format='%(refname:short) %(subject)' refs/heads"))
		require.Equal(t, head, revision(t, tree.Repository, "refs/fleet/agent/heads/more"))
	}
	sh(t, tree.Repository, "rm .git/refs/heads/more.lock .git/refs/fleet/agent/tags/v1.lock")
	c := mustSnapshot(t, g, tree, "task")
	require.Equal(t, "more", c.Branch)
	require.Empty(t, c.LeftOut)
}

// TestRefBelowFormerRef checks that a tag is collected, as well as the branches, although git cannot have the tag together
// with a tag of an earlier collection.
func TestRefBelowFormerRef(t *testing.T) {
	t.Parallel()
	g, tree := createTree(t)
	sh(t, tree.Dir, "git tag v1; git update-ref refs/heads/HEAD HEAD")
	collectBranches(t, g, tree)
	sh(t, tree.Dir, "git tag -d v1; git tag v1/a; git update-ref -d refs/heads/HEAD; git update-ref refs/heads/HEAD/a HEAD; git commit -q --allow-empty -m two")
	require.Contains(t, collectBranches(t, g, tree), "fleet/papi-1 two\n")
	for range 2 {
		collectBranches(t, g, tree)
		require.Len(t, strings.Fields(sh(t, tree.Repository, "git for-each-ref --format='%(refname)' refs/fleet/agent/tags")), 2)
	}
}

// TestEqualNames checks that two branches of an agent that could get the same name in the repository are both collected.
func TestEqualNames(t *testing.T) {
	t.Parallel()
	g, tree := createTree(t)
	sh(t, tree.Repository, "git tag v2")
	sh(t, tree.Dir, "git branch fleet/papi-1-v2 $(git commit-tree -m a -p HEAD HEAD^{tree}); git branch v2 $(git commit-tree -m b -p HEAD HEAD^{tree})")
	require.Equal(t, "fleet/papi-1 one\nfleet/papi-1-v2 a\nfleet/papi-1-v2-2 b\nmain one\nv2 one\n", collectBranches(t, g, tree))
}

// TestForgedRemote checks that Fleet does not trust an agent's own record of its pushes, because the agent can write it.
func TestForgedRemote(t *testing.T) {
	t.Parallel()
	g, tree := createTree(t)
	sh(t, tree.Dir, "git commit -q --allow-empty -m two; git update-ref refs/remotes/origin/main HEAD")
	require.Equal(t, Work{Commits: 1, Branches: []string{"fleet/papi-1"}}, mustExamine(t, g, tree))
}

// TestFirstBranchIsNamed checks that Branches includes the agent's first branch if it has commits, even if many others
// have some too. Remove removes that branch unless Branches includes it.
func TestFirstBranchIsNamed(t *testing.T) {
	t.Parallel()
	g, tree := createTree(t)
	sh(t, tree.Dir, "git commit -q --allow-empty -m two; for i in $(seq 20); do git branch a$i $(git commit-tree -m $i -p HEAD HEAD^{tree}); done; git commit -q --allow-empty -m three")
	w := mustExamine(t, g, tree)
	require.Equal(t, 22, w.Commits)
	require.Len(t, w.Branches, maxNamedBranches)
	require.Equal(t, "fleet/papi-1", w.Branches[0])
}

// TestManyRefsAndCommits collects and examines thousands of refs and commits. The examination must not take longer than 20
// seconds. On a slow machine, its time must grow like the number of refs and commits.
func TestManyRefsAndCommits(t *testing.T) {
	t.Parallel()
	if took := examineMany(t, 5_000); took > 20*time.Second {
		require.Less(t, took, 30*examineMany(t, 500))
	}
}

// examineMany collects and examines about n refs and 3n commits of a new agent, and as many of other people. It returns how long the
// examination has taken.
func examineMany(t *testing.T, n int) time.Duration {
	t.Helper()
	g, tree := createTree(t)
	history := func(ref string) string {
		return fmt.Sprintf(`{ echo "reset refs/heads/%s"; echo "from $(git rev-parse HEAD)"; for i in $(seq %d); do printf 'commit refs/heads/%s\ncommitter a <a@b> %%d +0000\ndata 1\nx\n' $i; done; } | git fast-import --quiet --force
			git log -%d --format='create refs/heads/%s/%%H %%H' %s-all | git update-ref --stdin`, ref+"-all", 3*n, ref+"-all", n, ref, ref)
	}
	sh(t, tree.Repository, history("theirs"))
	require.NoError(t, g.Begin(t.Context(), tree, "task"))
	sh(t, tree.Dir, history("mine")+"; git commit -q --allow-empty -m work")
	begun := time.Now()
	c := mustSnapshot(t, g, tree, "task")
	require.Equal(t, tree.Branch, c.Branch)
	t.Logf("collected in %s", time.Since(begun))
	begun = time.Now()
	w := mustExamine(t, g, tree)
	require.NotZero(t, w.Commits)
	require.Equal(t, tree.Branch, w.Branches[0])
	took := time.Since(begun)
	t.Logf("examined in %s", took)
	return took
}
