package worktree

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMigrate checks that a worktree of an earlier version gets its own git directory, and loses no work.
func TestMigrate(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"clean":           "true",
		"changes":         "echo two >>file; echo new >new; git add new; echo more >>new",
		"a merge":         "git checkout -qb side; echo side >file; git commit -qam side; git checkout -q -; echo mine >file; git commit -qam mine; git merge side || true",
		"on no branch":    "git checkout -q --detach; git commit -q --allow-empty -m two",
		"a submodule":     `git -c protocol.file.allow=always submodule --quiet add "$SUB" sub; cd sub; git commit -q --allow-empty -m two`,
		"another branch":  "git checkout -q -b other; git commit -q --allow-empty -m two",
		"a pipe in place": "mkfifo pipe; ln -s /etc dir; mkfifo $(git rev-parse --git-dir)/pipe",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := planned(t, repository(t), "fleet/papi-1")
			sh(t, tree.Repository, `git worktree add -q -b fleet/papi-1 "`+tree.Dir+`"`)
			sh(t, tree.Dir, "SUB='"+repository(t)+"'; "+script)
			status := "git status --porcelain=2 --branch; git stash list; cd sub 2>/dev/null && git status -b --porcelain && git log --format=%s || true"
			before := sh(t, tree.Dir, status)
			require.Empty(t, tree.Problem())
			g := New(os.Environ(), t.TempDir())
			for range 2 {
				require.NoError(t, g.Migrate(t.Context(), tree))
				require.True(t, tree.separate())
				require.Empty(t, tree.Problem())
				require.Equal(t, before, sh(t, tree.Dir, status))
			}
			require.NotContains(t, sh(t, tree.Repository, "git worktree list"), tree.Dir)
			require.NoError(t, g.Begin(t.Context(), tree, "agent", "task"))
			sh(t, tree.Dir, "git commit -q --allow-empty -m more || true")
			_, err := g.Snapshot(t.Context(), tree, "agent", "task")
			require.NoError(t, err)
			sh(t, tree.Repository, "git fsck --full")
		})
	}
}

// TestMigrateIsFinished checks that the next call completes an interrupted migration.
func TestMigrateIsFinished(t *testing.T) {
	t.Parallel()
	for name, undo := range map[string]string{
		"before the directory had its name": `mv ../git ../git.new`,
		"before the link was replaced":      `true`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := planned(t, repository(t), "fleet/papi-1")
			sh(t, tree.Repository, `git worktree add -q -b fleet/papi-1 "`+tree.Dir+`"; cp -a .git/worktrees "`+filepath.Dir(tree.Dir)+`"`)
			sh(t, tree.Dir, "echo two >>file; cp .git ../link")
			g := New(os.Environ(), t.TempDir())
			require.NoError(t, g.Migrate(t.Context(), tree))
			sh(t, tree.Dir, `mkdir -p "`+tree.Repository+`/.git/worktrees"; cp -a ../worktrees/. "`+tree.Repository+`/.git/worktrees"; cp ../link .git;`+undo)
			require.NoError(t, g.Migrate(t.Context(), tree))
			require.True(t, tree.separate())
			require.Equal(t, " M file\n", sh(t, tree.Dir, "git status --porcelain"))
		})
	}
}
