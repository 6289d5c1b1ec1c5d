package worktree

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestRepositoryOfAnotherUser checks that root can collect work into a repository of another user, and that this user can
// change what Fleet has created there.
func TestRepositoryOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can work in repositories of other users")
	}
	repo := newRepository(t)
	require.NoError(t, os.Chmod(filepath.Dir(repo), 0o755)) //nolint:gosec // the owner can reach the repository
	sh(t, repo, "chown -R nobody .")
	g, tree := New(os.Environ(), t.TempDir()), newTree(t, repo, "fleet/papi-1")
	require.NoError(t, g.Check(t.Context(), repo))
	require.NoError(t, g.Add(t.Context(), tree, ""))
	require.NoError(t, g.Begin(t.Context(), tree, "task"))
	sh(t, tree.Dir, "git checkout -q -b fix; echo two >>file; for i in $(seq 5); do echo $i >f$i; done; git add .; git commit -qm two; echo three >>file; mkdir -p ../git/lfs/objects/48/6e")
	sh(t, tree.Dir, "printf world >../git/lfs/objects/48/6e/486ea46224d1bb4fb680f34f7c9ad96a8f24ec88be73ea8e5a6c65260e9cb8a7")
	c := mustSnapshot(t, g, tree, "task")
	require.Equal(t, 1, c.Commits)
	require.Equal(t, "fix", c.Branch)
	require.Empty(t, sh(t, repo, "find . ! -user nobody ! -path '*/objects/pack/*'"))
	asNobody := "setpriv --reuid=nobody --clear-groups --bounding-set=-all "
	sh(t, repo, asNobody+"git branch -D fix; "+asNobody+"git -c safe.directory='*' gc -q --prune=now; "+asNobody+"git log -1 "+c.Commit)
	text, _, err := g.Patch(t.Context(), repo, c.Base, c.Commit, "file", 0, 1<<20)
	require.NoError(t, err)
	require.Contains(t, string(text), "+three")
	require.NoError(t, g.Remove(t.Context(), tree, mustExamine(t, g, tree).Branches))
	require.NotContains(t, sh(t, repo, asNobody+"git branch"), "papi")
}

// TestReadOnlyRepository checks that Check refuses a repository into which no work can be collected, and that the advice
// in its error works.
func TestReadOnlyRepository(t *testing.T) {
	t.Parallel()
	repo := newRepository(t)
	sh(t, repo, "chmod a-w .git/objects")
	t.Cleanup(func() { sh(t, repo, "chmod u+w .git/objects") })
	g := New(os.Environ(), t.TempDir())
	err := g.Check(t.Context(), repo)
	if os.Geteuid() == 0 {
		require.NoError(t, err, "modes do not matter to root")
	} else {
		require.ErrorContains(t, err, "cannot write to "+filepath.Join(repo, ".git", "objects"))
	}
	mirror := filepath.Join(t.TempDir(), "mirror")
	require.NoError(t, g.Fetch(t.Context(), "file://"+repo, mirror))
	require.NoError(t, g.Check(t.Context(), mirror))
}

// TestLandingOfAnotherUser checks that root can combine work in a repository of another user, and that this user can change
// all files afterwards.
func TestLandingOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can work in repositories of other users")
	}
	repo, b, _ := checkedOutRepo(t, "echo 1 >a; echo 1 >b", "echo 2 >a; mkdir d; echo new >d/new; git rm -q b")
	require.NoError(t, os.Chmod(filepath.Dir(repo), 0o755)) //nolint:gosec // the owner can reach the repository
	sh(t, repo, "chown -R nobody .; chmod -R go= .git")
	g := New(os.Environ(), t.TempDir())
	asNobody := "setpriv --reuid=nobody --clear-groups --bounding-set=-all git -c safe.directory='*' "
	c := fleet.Combination{Contribution: fleet.Contribution{Head: strings.TrimSpace(sh(t, repo, asNobody+"rev-parse later"))}, Onto: b.Commit, Strategy: fleet.Squash, Message: "land"}
	r, err := g.Combine(t.Context(), repo, c)
	require.NoError(t, err)
	require.NoError(t, checkout{repo, filepath.Join(repo, ".git")}.mark(moveMark{"main", b.Commit, r.Commit})) // an interrupted move
	sh(t, repo, "echo 2 >a; chown nobody a")
	require.NoError(t, g.Move(t.Context(), repo, b, r.Commit))
	require.Equal(t, "2\nnew\n", sh(t, repo, asNobody+"status --porcelain 2>/dev/null; cat a d/new"))
	require.Empty(t, sh(t, repo, "find . ! -user nobody ! -path '*/objects/pack/*'"))
	sh(t, repo, asNobody+"gc -q --prune=now; "+asNobody+"fsck --strict")
	require.NotEmpty(t, InaccessibleDir(repo), "no check can run while others may not read the repository")
	sh(t, repo, "chmod -R a+rX .git")
	tree := newTree(t, repo, "")
	require.NoError(t, g.CleanTree(t.Context(), tree, r.Commit))
	require.Equal(t, "new\n", sh(t, tree.Dir, "cat d/new"))
}
