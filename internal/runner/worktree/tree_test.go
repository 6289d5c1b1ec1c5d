package worktree

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// authorEnv contains environment variables that give commits an author, and hide the configurations of the user and of the system.
var authorEnv = []string{
	"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com",
	"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
}

// sh runs a script in the directory, and returns its output.
func sh(t testing.TB, dir, script string) string {
	t.Helper()
	cmd := exec.Command("bash", "-ec", script)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), authorEnv...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

// newRepository creates a repository with one commit.
func newRepository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	sh(t, dir, "git init -q -b main; echo one >file; git add file; git commit -qm one")
	return dir
}

// newTree returns a tree that does not exist yet.
func newTree(t *testing.T, repository, branch string) Tree {
	t.Helper()
	dir := t.TempDir()
	return Tree{Repository: repository, Dir: filepath.Join(dir, "work"), GitDir: filepath.Join(dir, "git"), Branch: branch, UID: "agent"}
}

// createTree creates a tree of a new repository.
func createTree(t *testing.T) (*Git, Tree) {
	t.Helper()
	tree := newTree(t, newRepository(t), "fleet/papi-1")
	g := New(os.Environ(), t.TempDir())
	require.NoError(t, g.Add(t.Context(), tree, ""))
	return g, tree
}

// beginTask creates a tree of a new repository, and begins the task "task" there.
func beginTask(t *testing.T) (*Git, Tree) {
	t.Helper()
	g, tree := createTree(t)
	require.NoError(t, g.Begin(t.Context(), tree, "task"))
	return g, tree
}

func mustSnapshot(t *testing.T, g *Git, tree Tree, task string) *fleet.Changes {
	t.Helper()
	c, err := g.Snapshot(t.Context(), tree, task)
	require.NoError(t, err)
	return c
}

func TestAdd(t *testing.T) {
	t.Parallel()
	g, tree := createTree(t)
	require.Empty(t, tree.Problem())
	require.Equal(t, "fleet/papi-1\n", sh(t, tree.Dir, "git branch --show-current"))
	sh(t, tree.Dir, "echo two >>file")
	require.NoError(t, g.Add(t.Context(), tree, ""), "an existing tree must be accepted")
	require.Equal(t, "one\ntwo\n", sh(t, tree.Dir, "cat file"), "existing work must stay")

	for name, damage := range map[string]string{
		"the directory is missing": `rm -rf "$DIR"`, "a file is missing": `rm "$DIR"/file`, "the git directory is missing": `rm -rf "$DIR"/../git`,
		"git was interrupted": `mv "$DIR/../git" "$DIR/../git.new"; rm -rf "$DIR"`,
		"the link is missing": `rm "$DIR"/.git`,
	} {
		sh(t, t.TempDir(), `DIR="`+tree.Dir+`"; `+damage)
		require.NoError(t, g.Recreate(t.Context(), tree, ""), name)
		require.Empty(t, tree.Problem(), name)
		require.Equal(t, "one\n", sh(t, tree.Dir, "cat file; git status --porcelain"), name)
	}
}

func TestAddHooks(t *testing.T) {
	t.Parallel()
	repo := newRepository(t)
	sh(t, repo, `printf '#!/bin/sh\nexit 1\n' >.git/hooks/post-checkout; chmod +x .git/hooks/post-checkout`)
	tree := newTree(t, repo, "b")
	require.NoError(t, New(os.Environ(), t.TempDir()).Add(t.Context(), tree, "main"))
}

func TestAddErrors(t *testing.T) {
	t.Parallel()
	g := New(os.Environ(), t.TempDir())
	empty := t.TempDir()
	sh(t, empty, "git init -q")
	tree := newTree(t, empty, "b")
	require.ErrorContains(t, g.Add(t.Context(), tree, ""), "has no commit")
	tree.Repository = newRepository(t)
	require.ErrorContains(t, g.Add(t.Context(), tree, "nowhere"), `no branch, tag or commit "nowhere"`)
	require.ErrorContains(t, g.Check(t.Context(), filepath.Join(empty, "no")), "there is no directory")
	require.ErrorContains(t, g.Check(t.Context(), t.TempDir()), "not a git repository")
	reftable := t.TempDir()
	sh(t, reftable, "git init -q --ref-format=reftable . 2>/dev/null || { git init -q; git config extensions.refStorage reftable; }") // old versions of git only ignore the setting
	require.ErrorContains(t, g.Check(t.Context(), reftable), "git refs migrate")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, g.Add(ctx, tree, ""), context.Canceled)
}

func TestRemove(t *testing.T) {
	t.Parallel()
	g, tree := createTree(t)
	for range 2 {
		require.NoError(t, g.Remove(t.Context(), tree, nil))
		require.NoDirExists(t, tree.Dir)
		require.NotContains(t, sh(t, tree.Repository, "git branch; git worktree list"), "fleet/papi-1")
	}
	g, tree = createTree(t)
	sh(t, tree.Dir, "git commit -q --allow-empty -m two")
	require.NoError(t, g.Remove(t.Context(), tree, mustExamine(t, g, tree).Branches))
	require.Contains(t, sh(t, tree.Repository, "git branch"), "fleet/papi-1", "a branch with a commit of its own must stay")
}

// TestRemoveLater checks that a deletion that continues much later does not remove commits that a person has made meanwhile.
func TestRemoveLater(t *testing.T) {
	t.Parallel()
	g, tree := createTree(t)
	w := mustExamine(t, g, tree)
	require.Equal(t, Work{}, w)
	sh(t, tree.Repository, "git checkout -q fleet/papi-1; git commit -q --allow-empty -m theirs; git checkout -q main")
	for range 2 {
		require.NoError(t, g.Remove(t.Context(), tree, w.Branches))
		require.Equal(t, "theirs\n", sh(t, tree.Repository, "git log -1 --format=%s fleet/papi-1"))
	}
}

// TestRecreateInterrupted interrupts Recreate at many moments. The next call must complete the work.
func TestRecreateInterrupted(t *testing.T) {
	t.Parallel()
	repo := newRepository(t)
	sh(t, repo, "for i in $(seq 300); do echo $i >f$i; done; git add .; git commit -qm many")
	g := New(os.Environ(), t.TempDir())
	tree := newTree(t, repo, "b")
	for timeout := time.Millisecond; ; timeout += time.Millisecond + timeout/8 {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		err := g.Recreate(ctx, tree, "")
		cancel()
		if err == nil {
			break
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	require.Empty(t, sh(t, tree.Dir, "git status --porcelain"))
}
