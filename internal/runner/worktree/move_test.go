package worktree

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// checkedOutRepo makes a repository whose branch main people have checked out, and a later commit for it.
func checkedOutRepo(t *testing.T, base, later string) (repo string, b fleet.Branch, to string) {
	t.Helper()
	repo = newRepository(t)
	sh(t, repo, base+"; git add -A; git commit -q --allow-empty -m base; git checkout -q --detach; "+later+"; git add -A; git commit -q --allow-empty -m later; git branch later; git checkout -q main")
	return repo, fleet.Branch{Name: "main", Commit: revision(t, repo, "main")}, revision(t, repo, "later")
}

func TestMoveCheckedOut(t *testing.T) {
	t.Parallel()
	const base = "echo 1 >a; echo 1 >b; mkdir d; echo 1 >d/x; echo ignored >.gitignore"
	const later = "echo 2 >a; echo new >c; git rm -rq d; echo file >d; chmod +x b; ln -s a link"
	for _, tc := range []struct {
		name, script string // what people do in the working tree
		file         string // the file that is in the way, - if the error names none; empty if the files are updated
		status       string // of git afterwards
	}{
		{"clean", "true", "", ""},
		{"another file has changes", "echo x >file; echo y >new; git add new", "", " M file\nA  new\n"},
		{"only the time has changed", "touch -d 2001-01-01 a", "", ""},
		{"the file has changes", "echo x >a", "a", " M a\n"},
		{"the file has staged changes", "echo x >a; git add a", "a", "M  a\n"},
		{"the file has staged changes only", "echo x >a; git add a; echo 1 >a", "a", "MM a\n"},
		{"a file that is not tracked", "echo mine >c", "c", "?? c\n"},
		{"a file that is ignored", "echo c >.git/info/exclude; echo mine >c", "c", ""},
		{"a file in a directory that becomes a file", "echo mine >d/mine", "d", "?? d/mine\n"},
		{"an ignored file in a directory that becomes a file", "echo mine >d/ignored", "d/ignored", ""},
		{"a deleted file", "rm a", "", ""},
		{"a merge", "git checkout -q -b o; git commit -q --allow-empty -m o; git checkout -q main; git merge -q --no-commit --no-ff o", "-", ""},
		{"a rebase", "GIT_SEQUENCE_EDITOR='sed -i s/^pick/edit/' git rebase -q -i HEAD^ 2>/dev/null", "-", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			repo, b, to := checkedOutRepo(t, base, later)
			sh(t, repo, tc.script)
			if tc.name == "a rebase" || tc.name == "a merge" {
				require.Equal(t, b.Commit, revision(t, repo, "main"))
			}
			before := sh(t, repo, "git status --porcelain; find . -path ./.git -prune -o -type f -print | sort | xargs sha256sum")
			err := New(os.Environ(), t.TempDir()).Move(t.Context(), repo, b, to)
			status := sh(t, repo, "git status --porcelain")
			if tc.file != "" {
				require.Equal(t, fleet.ReasonBranchCheckedOut, reasonOf(err), "%v", err)
				require.ErrorContains(t, err, repo)
				if tc.file != "-" {
					require.ErrorContains(t, err, tc.file)
				}
				require.Equal(t, b.Commit, revision(t, repo, "main"))
				require.Equal(t, before, sh(t, repo, "git status --porcelain; find . -path ./.git -prune -o -type f -print | sort | xargs sha256sum"))
				require.Equal(t, tc.status, status)
				return
			}
			require.NoError(t, err)
			require.Equal(t, to, revision(t, repo, "main"))
			require.Equal(t, tc.status, status)
			require.Equal(t, "2\nnew\nfile\n2\n", sh(t, repo, "cat a c d link; test -x b"))
			require.NoError(t, New(os.Environ(), t.TempDir()).Move(t.Context(), repo, b, to), "a repeated call must succeed")
			require.Contains(t, sh(t, repo, "git reflog -1 main"), "land")
		})
	}
}

// TestMoveElsewhere moves a branch that people have checked out in a linked worktree, and a branch of a bare repository. It also checks
// the errors of Move and Branch.
func TestMoveElsewhere(t *testing.T) {
	t.Parallel()
	repo, b, to := checkedOutRepo(t, "echo 1 >a", "echo 2 >a")
	g := New(os.Environ(), t.TempDir())
	linked := filepath.Join(t.TempDir(), "linked")
	sh(t, repo, "git checkout -q -b other; git worktree add -q "+linked+" main")
	sh(t, linked, "echo x >a")
	err := g.Move(t.Context(), repo, b, to)
	require.Equal(t, fleet.ReasonBranchCheckedOut, reasonOf(err), "%v", err)
	require.ErrorContains(t, err, linked)
	sh(t, linked, "git checkout -q a")
	require.NoError(t, g.Move(t.Context(), repo, b, to))
	require.Equal(t, "2\n", sh(t, linked, "cat a; git status --porcelain"))
	require.Equal(t, "1\n", sh(t, repo, "cat a; git status --porcelain"))

	err = g.Move(t.Context(), repo, fleet.Branch{Name: "main", Commit: b.Commit}, revision(t, repo, "main"))
	require.NoError(t, err)
	sh(t, linked, "git commit -q --allow-empty -m more")
	require.Equal(t, fleet.ReasonBranchMoved, reasonOf(g.Move(t.Context(), repo, b, to)))
	require.Equal(t, fleet.ReasonBranchMoved, reasonOf(g.Move(t.Context(), repo, fleet.Branch{Name: "gone", Commit: b.Commit}, to)))
	require.ErrorContains(t, g.Move(t.Context(), repo, fleet.Branch{Name: "main", Commit: revision(t, repo, "main")}, to), "in its history")

	bare := filepath.Join(t.TempDir(), "bare")
	sh(t, repo, "git clone -q --bare . "+bare+"; git -C "+bare+" update-ref refs/heads/main "+b.Commit)
	got, err := g.Branch(t.Context(), bare, "", "main")
	require.NoError(t, err)
	require.Equal(t, b, got)
	require.NoError(t, g.Move(t.Context(), bare, b, to))
	require.Equal(t, to, revision(t, bare, "main"))
	_, err = g.Branch(t.Context(), bare, "", "no/such branch")
	require.Equal(t, fleet.ReasonBranchNotFound, reasonOf(err))
	empty := t.TempDir()
	sh(t, empty, "git init -q -b main")
	_, err = g.Branch(t.Context(), empty, "", "")
	require.Equal(t, fleet.ReasonBranchNotFound, reasonOf(err))
}

// TestMoveRunsNothing checks that no hook and no filter runs in a working tree of people, and that a file that needs a filter is not
// written without it.
func TestMoveRunsNothing(t *testing.T) {
	t.Parallel()
	repo, b, to := checkedOutRepo(t, "echo 1 >a", "echo 2 >a; echo '*.big filter=evil' >.gitattributes; echo x >x.big")
	evil := filepath.Join(t.TempDir(), "evil")
	g := New(os.Environ(), t.TempDir())
	for _, hook := range []string{"post-merge", "post-checkout", "reference-transaction", "post-index-change"} {
		require.NoError(t, os.WriteFile(filepath.Join(repo, ".git/hooks", hook), []byte("#!/bin/sh\ntouch "+evil+"\n"), 0o700))
	}
	sh(t, repo, "git config filter.evil.smudge 'touch "+evil+"; cat'; git config filter.evil.clean 'touch "+evil+"; cat'; git config core.fsmonitor 'touch "+evil+"'")
	err := g.Move(t.Context(), repo, b, to)
	require.Equal(t, fleet.ReasonBranchCheckedOut, reasonOf(err), "%v", err)
	require.ErrorContains(t, err, "x.big needs a filter")
	sh(t, repo, "git config --remove-section filter.evil; git config filter.other.smudge 'touch "+evil+"; cat'; rm -f "+evil)
	require.NoError(t, g.Move(t.Context(), repo, b, to))
	require.NoFileExists(t, evil)
	require.Equal(t, "2\n", sh(t, repo, "cat a"))
}

func TestMoveSource(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	work := newRepository(t)
	origin := filepath.Join(dir, "origin.git")
	sh(t, work, "git clone -q --bare . "+origin+"; git remote add origin "+origin+"; git fetch -q")
	source, mirror := "file://"+origin, filepath.Join(dir, "mirror.git")
	g := New(os.Environ(), t.TempDir())
	b, err := g.Branch(t.Context(), mirror, source, "")
	require.NoError(t, err)
	require.Equal(t, fleet.Branch{Name: "main", Commit: revision(t, work, "main")}, b)
	tree := newTree(t, mirror, "fleet/papi-1")
	require.NoError(t, g.Add(t.Context(), tree, ""))
	sh(t, tree.Dir, "echo two >file; git commit -qam two")
	c := mustSnapshot(t, g, tree, "task")
	require.NoError(t, g.MoveSource(t.Context(), source, mirror, b, c.Commit))
	require.Equal(t, c.Commit, revision(t, origin, "main"))
	require.Equal(t, c.Commit, revision(t, mirror, "refs/remotes/origin/main"))
	require.NoError(t, g.MoveSource(t.Context(), source, mirror, b, c.Commit), "a repeated call must succeed")

	sh(t, work, "git pull -q origin main; echo three >file; git commit -qam three; git push -q origin main")
	sh(t, tree.Dir, "echo other >file; git commit -qam other")
	c = mustSnapshot(t, g, tree, "task")
	b.Commit = revision(t, mirror, "refs/remotes/origin/main")
	require.Equal(t, fleet.ReasonBranchMoved, reasonOf(g.MoveSource(t.Context(), source, mirror, b, c.Commit)))
	require.Equal(t, revision(t, work, "main"), revision(t, origin, "main"))
	b, err = g.Branch(t.Context(), mirror, source, "main")
	require.NoError(t, err)
	require.Equal(t, revision(t, work, "main"), b.Commit, "Branch must ask the source")
	for _, name := range []string{"gone", "HEAD"} { // origin/HEAD of the mirror is a symbolic ref, and not a branch
		_, err = g.Branch(t.Context(), mirror, source, name)
		require.Equal(t, fleet.ReasonBranchNotFound, reasonOf(err), name)
	}
}
