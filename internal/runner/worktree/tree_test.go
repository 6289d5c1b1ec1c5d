package worktree

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/runner/filetree"
)

// author contains environment variables that give commits an author, and hide the configurations of the user and of the system.
var author = []string{
	"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com",
	"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
}

// sh runs a script in the directory, and returns its output.
func sh(t testing.TB, dir, script string) string {
	t.Helper()
	cmd := exec.Command("bash", "-ec", script)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), author...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

// repository creates a repository with one commit.
func repository(t *testing.T) string {
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
	tree := newTree(t, repository(t), "fleet/papi-1")
	g := New(os.Environ(), t.TempDir())
	require.NoError(t, g.Add(t.Context(), tree, "", false))
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
	require.NoError(t, g.Add(t.Context(), tree, "", false), "an existing tree must be accepted")
	require.Equal(t, "one\ntwo\n", sh(t, tree.Dir, "cat file"), "existing work must stay")

	for name, damage := range map[string]string{
		"the directory is missing": `rm -rf "$DIR"`, "a file is missing": `rm "$DIR"/file`, "the git directory is missing": `rm -rf "$DIR"/../git`,
		"git was interrupted": `mv "$DIR/../git" "$DIR/../git.new"; rm -rf "$DIR"`,
		"the link is missing": `rm "$DIR"/.git`,
	} {
		sh(t, t.TempDir(), `DIR="`+tree.Dir+`"; `+damage)
		require.NoError(t, g.Add(t.Context(), tree, "", true), name)
		require.Empty(t, tree.Problem(), name)
		require.Equal(t, "one\n", sh(t, tree.Dir, "cat file; git status --porcelain"), name)
	}
}

func TestAddHooks(t *testing.T) {
	t.Parallel()
	repo := repository(t)
	sh(t, repo, `printf '#!/bin/sh\nexit 1\n' >.git/hooks/post-checkout; chmod +x .git/hooks/post-checkout`)
	tree := newTree(t, repo, "b")
	require.NoError(t, New(os.Environ(), t.TempDir()).Add(t.Context(), tree, "main", false))
}

func TestAddErrors(t *testing.T) {
	t.Parallel()
	g := New(os.Environ(), t.TempDir())
	empty := t.TempDir()
	sh(t, empty, "git init -q")
	tree := newTree(t, empty, "b")
	require.ErrorContains(t, g.Add(t.Context(), tree, "", false), "has no commit")
	tree.Repository = repository(t)
	require.ErrorContains(t, g.Add(t.Context(), tree, "nowhere", false), `no branch, tag or commit "nowhere"`)
	require.ErrorContains(t, g.Check(t.Context(), filepath.Join(empty, "no")), "there is no directory")
	require.ErrorContains(t, g.Check(t.Context(), t.TempDir()), "not a git repository")
	reftable := t.TempDir()
	sh(t, reftable, "git init -q --ref-format=reftable . 2>/dev/null || { git init -q; git config extensions.refStorage reftable; }") // old versions of git only ignore the setting
	require.ErrorContains(t, g.Check(t.Context(), reftable), "git refs migrate")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, g.Add(ctx, tree, "", false), context.Canceled)
}

// mustExamine returns the work in the agent's tree.
func mustExamine(t *testing.T, g *Git, tree Tree) Work {
	t.Helper()
	w, err := examine(t, g, tree)
	require.NoError(t, err)
	return w
}

func examine(t *testing.T, g *Git, tree Tree) (Work, error) {
	t.Helper()
	survey, err := filetree.Examine(filepath.Dir(tree.Dir))
	require.NoError(t, err)
	return g.Examine(t.Context(), tree, survey)
}

func TestExamine(t *testing.T) {
	t.Parallel()
	const two = "git commit -q --allow-empty -m two; "
	saved := func(n int, branches ...string) Work { return Work{Commits: n, Branches: branches} }
	unsaved := func(w Work, what ...string) Work { w.Unsaved = what; return w }
	for name, tc := range map[string]struct {
		script string
		want   Work // a text of Unsaved that begins with @ is only a part of the expected text
	}{
		"nothing":                    {"true", Work{}},
		"a change":                   {"echo two >>file", unsaved(Work{}, "1 file that its last commit does not have")},
		"a change of the same size":  {"touch -r file ../git/t; printf 'eno\\n' >file; touch -r ../git/t file; rm ../git/t; git update-index -q --refresh || true", unsaved(Work{}, "1 file that its last commit does not have")},
		"new files":                  {"echo two >new; echo two >newer", unsaved(Work{}, "2 files that its last commit does not have")},
		"an ignored file":            {"echo out >ignored; echo ignored >../git/info/exclude", unsaved(Work{}, "1 file that its last commit does not have")},
		"skip-worktree":              {"git update-index --skip-worktree file; echo two >>file", unsaved(Work{}, "1 file that its last commit does not have")},
		"assume-unchanged":           {"git update-index --assume-unchanged file; echo two >>file", unsaved(Work{}, "1 file that its last commit does not have")},
		"staged":                     {"git rm -q file", unsaved(Work{}, "1 file that its last commit does not have")},
		"only staged":                {"echo two >file; git add file; echo one >file", unsaved(Work{}, "1 staged change")},
		"a nested repository":        {"git init -q inner; cd inner; git commit -q --allow-empty -m inner; cd ..; echo inner >../git/info/exclude", unsaved(Work{}, "@ files that its last commit does not have")},
		"an older stash":             {"echo 1 >>file; git stash -q; echo 2 >>file; git stash -q", unsaved(Work{}, "@ commits on no branch")},
		"a dropped stash":            {"echo 1 >>file; git stash -q; git stash drop -q", unsaved(Work{}, "2 commits on no branch")},
		"a deleted branch":           {"git checkout -q --detach; " + two + "git checkout -q fleet/papi-1", unsaved(Work{}, "1 commit on no branch")},
		"an amended commit":          {two + "git commit -q --amend --allow-empty -m three", unsaved(saved(1, "fleet/papi-1"), "1 commit on no branch")},
		"a worktree elsewhere":       {"git worktree add -q --detach ../tmp/tree; cd ../tmp/tree; " + two, unsaved(Work{}, "1 commit on no branch", "worktrees of its own")},
		"a rebase":                   {"git checkout -q -b x; " + two + "echo >>file; git commit -qam x; GIT_SEQUENCE_EDITOR=true git rebase -q -i --exec false HEAD^ 2>/dev/null || true", unsaved(saved(2, "x"), "a merge, a rebase or something else in its git directory")},
		"commits":                    {two + "git commit -q --allow-empty -m three", saved(2, "fleet/papi-1")},
		"commits on another branch":  {"git checkout -q -b feature; " + two, saved(1, "feature")},
		"commits that are merged":    {two + "git branch -f other", saved(1, "other")},
		"commits on no branch":       {"git checkout -q --detach; " + two, unsaved(Work{}, "1 commit on no branch")},
		"both":                       {two + "echo x >new", unsaved(saved(1, "fleet/papi-1"), "1 file that its last commit does not have")},
		"a git directory of its own": {"rm .git; git init -q .; git add -A; git commit -q -m other", unsaved(Work{}, "@ files that its last commit does not have")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, tree := createTree(t)
			sh(t, tree.Dir, tc.script)
			w := mustExamine(t, g, tree)
			for i, what := range tc.want.Unsaved {
				if rest, ok := strings.CutPrefix(what, "@"); ok && i < len(w.Unsaved) {
					require.Contains(t, w.Unsaved[i], rest)
					w.Unsaved[i] = what
				}
			}
			require.Equal(t, tc.want, w)
		})
	}
	t.Run("a commit in a submodule", func(t *testing.T) {
		t.Parallel()
		g, tree := createTree(t)
		sh(t, tree.Dir, "git -c protocol.file.allow=always submodule --quiet add "+repository(t)+" sub; git commit -qm sub; cd sub; "+two+"cd ..; git commit -qam bump")
		w := mustExamine(t, g, tree)
		require.Equal(t, 2, w.Commits)
		require.Contains(t, w.Unsaved, "submodules")
	})
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

func TestFetch(t *testing.T) {
	t.Parallel()
	origin := repository(t)
	source := "file://" + origin
	require.True(t, IsRemote(source))
	g := New(os.Environ(), t.TempDir())
	mirror := MirrorPath(filepath.Join(t.TempDir(), "repositories"), source)
	require.NoError(t, g.Fetch(t.Context(), source, mirror))
	tree := newTree(t, mirror, "fleet/papi-1")
	require.NoError(t, g.Add(t.Context(), tree, "", false))
	sh(t, tree.Dir, "git commit -q --allow-empty -m mine")
	w := mustExamine(t, g, tree)
	require.Equal(t, Work{Commits: 1, Branches: []string{"fleet/papi-1"}}, w)

	// New trees start at the current state, and existing trees do not change.
	sh(t, origin, "echo two >>file; git commit -qam two; git checkout -q -b next; git commit -q --allow-empty -m next; git checkout -q main")
	require.NoError(t, g.Fetch(t.Context(), source, mirror))
	second := newTree(t, mirror, "fleet/sony-2")
	require.NoError(t, g.Add(t.Context(), second, "", false))
	require.Equal(t, "one\ntwo\n", sh(t, second.Dir, "cat file"))
	third := newTree(t, mirror, "fleet/carl-3")
	require.NoError(t, g.Add(t.Context(), third, "next", false))
	require.Equal(t, "next\n", sh(t, third.Dir, "git log -1 --format=%s"))
	require.Equal(t, "mine\n", sh(t, tree.Dir, "git log -1 --format=%s"))
	sh(t, tree.Dir, "git push -q origin HEAD:refs/heads/result")
	require.Contains(t, sh(t, origin, "git branch"), "result")

	err := g.Fetch(t.Context(), "file://user:secret@"+filepath.Join(origin, "no"), mirror+"x")
	require.Error(t, err)
	require.NotContains(t, err.Error(), "secret")
	require.NoDirExists(t, mirror+"x")
}

func TestIsRemote(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]bool{
		"https://example.com/a/b.git": true, "ssh://git@example.com/a": true, "git@example.com:a/b.git": true, "host:path": true,
		"file:///srv/a": true, "/srv/git/a": false, "../a": false, "a": false, "": false, "/srv/a:b": false,
	} {
		require.Equal(t, want, IsRemote(source), source)
	}
}

func TestMirrorPath(t *testing.T) {
	t.Parallel()
	require.NotEqual(t, MirrorPath("d", "https://a/x.git"), MirrorPath("d", "https://b/x.git"), "mirrors of different sources must not share a directory")
}

func TestScrub(t *testing.T) {
	t.Parallel()
	require.Equal(t, "://host", Scrub("://user:pass@host"))
}

// TestCutOff interrupts Add at many moments. The next call must complete the work.
func TestCutOff(t *testing.T) {
	t.Parallel()
	repo := repository(t)
	sh(t, repo, "for i in $(seq 300); do echo $i >f$i; done; git add .; git commit -qm many")
	g := New(os.Environ(), t.TempDir())
	tree := newTree(t, repo, "b")
	for timeout := time.Millisecond; ; timeout += time.Millisecond + timeout/8 {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		err := g.Add(ctx, tree, "", true)
		cancel()
		if err == nil {
			break
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	require.Empty(t, sh(t, tree.Dir, "git status --porcelain"))
}

// TestOutputOfGit runs a git command whose child keeps the output open, as a shared connection of ssh does. The output
// must be complete when git has ended, although the child still runs.
func TestOutputOfGit(t *testing.T) {
	t.Parallel()
	g := New(os.Environ(), t.TempDir())
	out, err := g.run(t.Context(), repository(t), "-c", "alias.shared=!sleep 3600 & echo $!; exit 0; :", "shared")
	require.NoError(t, err)
	pid, err := strconv.Atoi(out)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
}
