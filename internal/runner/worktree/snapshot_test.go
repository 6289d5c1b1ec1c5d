package worktree

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

func TestSnapshot(t *testing.T) {
	t.Parallel()
	t.Run("no changes", func(t *testing.T) {
		t.Parallel()
		g, tree := beginTask(t)
		c := mustSnapshot(t, g, tree, "task")
		require.Equal(t, c.Base, c.Commit)
		require.Equal(t, tree.Branch, c.Branch)
		require.False(t, c.Dirty)
		require.Zero(t, c.FileCount)
	})
	t.Run("commits, changes and new files", func(t *testing.T) {
		t.Parallel()
		g, tree := createTree(t)
		sh(t, tree.Dir, `seq 40 >old; echo 'ignored' >.gitignore; git add -A; git commit -qm before`)
		require.NoError(t, g.Begin(t.Context(), tree, "task"))
		sh(t, tree.Dir, `
			git mv old new; git commit -qm renamed
			printf 'one\ntwo\n' >file; git add file; printf 'three\n' >>file
			echo made >' a "quoted"
name '; printf '\0\1' >binary; echo secret >ignored; ln -s /etc/passwd link; rm .gitignore; echo ignored >.gitignore`)
		index := sh(t, tree.GitDir, "sha256sum index")
		c := mustSnapshot(t, g, tree, "task")
		require.Equal(t, index, sh(t, tree.GitDir, "sha256sum index"), "the agent's index must not change")
		require.True(t, c.Dirty)
		require.False(t, c.Pushed)
		require.Equal(t, 1, c.Commits)
		require.Equal(t, "refs/fleet/agent/task", c.Ref)
		require.Equal(t, []fleet.FileChange{
			{Path: " a \"quoted\"\nname ", Kind: fleet.FileAdded, Insertions: 1},
			{Path: "binary", Kind: fleet.FileAdded, Binary: true},
			{Path: "file", Kind: fleet.FileModified, Insertions: 2},
			{Path: "link", Kind: fleet.FileAdded, Insertions: 1},
			{Path: "new", From: "old", Kind: fleet.FileRenamed},
		}, c.FileChanges)
		require.Equal(t, []int{5, 4, 0}, []int{c.FileCount, c.Insertions, c.Deletions})
		require.Equal(t, "one\ntwo\nthree\n", sh(t, tree.Repository, "git show refs/fleet/agent/task:file"))

		// The next task starts with the files that this task has left.
		require.NoError(t, g.Begin(t.Context(), tree, "next"))
		sh(t, tree.Dir, `echo four >>file`)
		next := mustSnapshot(t, g, tree, "next")
		require.Equal(t, c.Commit, next.Base)
		require.Equal(t, []fleet.FileChange{{Path: "file", Kind: fleet.FileModified, Insertions: 1}}, next.FileChanges)
	})
	t.Run("large files and repositories are left out", func(t *testing.T) {
		t.Parallel()
		g, tree := beginTask(t)
		sh(t, tree.Dir, `truncate -s 51M large; git init -q inner; cd inner; git -c user.name=a -c user.email=a commit -q --allow-empty -m inner`)
		c := mustSnapshot(t, g, tree, "task")
		require.Equal(t, []string{"inner/ (a repository of its own)", "large (larger than 50 MiB)"}, c.LeftOut)
		require.True(t, c.Dirty)
		require.Zero(t, c.FileCount)
	})
	t.Run("a file instead of a directory, no index, no commit", func(t *testing.T) {
		t.Parallel()
		g, tree := createTree(t)
		sh(t, tree.Dir, `mkdir dir; echo a >dir/a; git add -A; git commit -qm before`)
		require.NoError(t, g.Begin(t.Context(), tree, "task"))
		sh(t, tree.Dir, `rm -r dir; echo now a file >dir; rm "$(git rev-parse --git-path index)"`)
		c := mustSnapshot(t, g, tree, "task")
		require.Equal(t, 2, c.FileCount)
		sh(t, tree.Dir, `git symbolic-ref HEAD refs/heads/none`)
		c = mustSnapshot(t, g, tree, "task")
		require.Equal(t, "", c.Branch)
		require.Equal(t, 2, c.FileCount)
	})
	t.Run("pushed", func(t *testing.T) {
		t.Parallel()
		g, tree := beginTask(t)
		sh(t, tree.Dir, `git init -q --bare ../remote.git; git remote add origin "$PWD/../remote.git"
			git commit -q --allow-empty -m one; git push -q origin HEAD`)
		c := mustSnapshot(t, g, tree, "task")
		require.True(t, c.Pushed)
		require.Equal(t, 1, c.Commits)
	})
	t.Run("programs of the agent are not run", func(t *testing.T) {
		t.Parallel()
		g, tree := beginTask(t)
		sh(t, tree.Dir, attributeScript)
		trapPrograms(t, tree.Dir)
		require.NoError(t, g.Begin(t.Context(), tree, "again"))
		c := mustSnapshot(t, g, tree, "task")
		require.Equal(t, 2, c.FileCount)
		patch, _, err := g.Patch(t.Context(), tree.Repository, c.Base, c.Commit, "", 0, 1<<20)
		require.NoError(t, err)
		require.Contains(t, string(patch), "+two")
	})
}

func TestPatch(t *testing.T) {
	t.Parallel()
	g, tree := beginTask(t)
	sh(t, tree.Dir, `seq 200000 >numbers; echo x >'*'`)
	c := mustSnapshot(t, g, tree, "task")
	page := func(path string, offset int) (text string, more bool) {
		b, more, err := g.Patch(t.Context(), tree.Repository, c.Base, c.Commit, path, int64(offset), 500_000)
		require.NoError(t, err)
		require.True(t, !more || len(b) == 500_000)
		return string(b), more
	}
	all := ""
	for text, more := "", true; more; all += text {
		text, more = page("", len(all))
	}
	require.Contains(t, all, "\n+200000\n")
	require.True(t, sh(t, tree.Repository, "git diff-tree -r -p --full-index "+c.Base+" "+c.Commit) == all, "the pages must add up to the patch")
	one, more := page("*", 0)
	require.False(t, more)
	require.NotContains(t, one, "numbers")
	require.Contains(t, one, "+x")
}
