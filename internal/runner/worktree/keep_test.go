package worktree

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMoveKeepsTheIndex checks that the kept worktree has the agent's staged files, and the agent's merge with
// conflicts.
func TestMoveKeepsTheIndex(t *testing.T) {
	t.Parallel()
	g, tree := plant(t)
	sh(t, tree.Dir, `git checkout -qb side; echo side >file; git commit -qam side; git checkout -q -; echo mine >file; git commit -qam mine
		git merge side >/dev/null || true; echo staged >new; git add new; echo changed >new; touch untracked
		mkdir fixed; echo fixed >fixed/file; chmod 500 fixed`)
	status := "git status --porcelain; git show :new; git log -1 --format=%s MERGE_HEAD"
	before := sh(t, tree.Dir, status)
	to := filepath.Join(t.TempDir(), "kept")
	require.NoError(t, g.Move(t.Context(), tree, to))
	require.Equal(t, before, sh(t, to, status))
	require.Equal(t, "500 fixed\n", sh(t, to, "stat -c %a fixed/ | tr '\\n' ' '; cat fixed/file; chmod 700 fixed"))
	require.Contains(t, before, "UU file\nAM new\n?? fixed/\n?? untracked\nstaged\nside\n")
	require.Contains(t, sh(t, tree.Repository, "git worktree list; git gc -q --prune=now; git fsck 2>&1"), to)
	sh(t, to, "git add -A; git commit -qm merged")
	require.Equal(t, "merged\n", sh(t, tree.Repository, "git log -1 --format=%s fleet/papi-1"))
}

// TestConfigOfKeptTreeIsIgnored checks that the agent's configuration has no effect in a kept tree.
func TestConfigOfKeptTreeIsIgnored(t *testing.T) {
	t.Parallel()
	for name, move := range map[string]func(*Git, Tree, string) error{
		"moved":     func(g *Git, tree Tree, to string) error { return g.Move(t.Context(), tree, to) },
		"abandoned": func(_ *Git, tree Tree, to string) error { return tree.Abandon(to) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, tree := plant(t)
			sh(t, tree.Dir, "git -c protocol.file.allow=always submodule --quiet add "+repository(t)+` sub
				git init -q inner; cd inner; git commit -q --allow-empty -m inner; cd ..; git add inner 2>/dev/null`)
			sh(t, tree.Dir, attribute)
			to := filepath.Join(t.TempDir(), "kept")
			trapPrograms(t, tree.Dir)
			trapPrograms(t, filepath.Join(tree.Dir, "sub"))
			trapPrograms(t, filepath.Join(tree.Dir, "inner"))
			require.NoError(t, move(g, tree, to))
			sh(t, to, "git status || true; git diff --submodule=diff || true; git log -p -1 || true; git add -A || true; git commit -qm kept || true")
			require.FileExists(t, filepath.Join(to, "sub", "file"))
		})
	}
}

// TestMoveIsFinished checks that the next call completes an interrupted move.
func TestMoveIsFinished(t *testing.T) {
	t.Parallel()
	g, tree := plant(t)
	sh(t, tree.Dir, "echo two >>file; echo x >a; mkdir dir; echo y >dir/b")
	to := filepath.Join(t.TempDir(), "kept")
	v, err := g.open(tree)
	require.NoError(t, err)
	defer v.close()
	have, err := g.refs(t.Context(), tree)
	require.NoError(t, err)
	head, _ := v.headNow(t.Context())
	require.NoError(t, g.worktree(t.Context(), tree, to, v.head, head, have))
	require.NoError(t, os.Rename(filepath.Join(tree.Dir, "a"), filepath.Join(to, "a")))
	require.NoError(t, g.Move(t.Context(), tree, to))
	require.Equal(t, " M file\n?? a\n?? dir/\n", sh(t, to, "git status --porcelain"))
	require.NoDirExists(t, tree.Dir)
	require.NoDirExists(t, tree.GitDir)
}
