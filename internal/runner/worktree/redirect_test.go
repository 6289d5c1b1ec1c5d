package worktree

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/runner/filetree"
)

// TestRedirectedTree checks that Fleet does not trust a tree's link to its git directory, and copes with a damaged git directory.
// Otherwise an agent could make the server change and remove people's files.
func TestRedirectedTree(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"the link names the repository":               `echo "gitdir: $REPOSITORY/.git/worktrees/.." >.git`,
		"the link names a worktree of a person":       `echo "gitdir: $REPOSITORY/.git/worktrees/person" >.git`,
		"without objects, a link to the repository":   `echo "gitdir: $REPOSITORY/.git" >.git; rm -rf ../git/objects`,
		"without objects, a link to a person's files": `rm -rf .git ../git/objects; ln -s "$PERSON" .git`,
		"no git directory":                            `rm -rf ../git/*`,
		"files instead of directories":                `rm -rf ../git/objects ../git/refs; touch ../git/objects ../git/refs`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, tree := createTree(t)
			person := filepath.Join(t.TempDir(), "person")
			sh(t, tree.Repository, `git worktree add -q --detach "`+person+`"; touch "`+person+`/yarn.lock" .git/held.lock .git/worktrees/person/held.lock`)
			old := time.Now().Add(-20 * time.Minute)
			for _, path := range []string{person + "/yarn.lock", tree.Repository + "/.git/held.lock"} {
				require.NoError(t, os.Chtimes(path, old, old))
			}
			require.NoError(t, g.Begin(t.Context(), tree, "task"))
			before := sh(t, tree.Repository, "find .git -name git -prune -o -type f -print | sort; find '"+person+"' -type f | sort")
			sh(t, tree.Dir, `REPOSITORY='`+tree.Repository+`' PERSON='`+person+`'; `+script)
			_, _ = g.Snapshot(t.Context(), tree, "task") // it may fail
			_ = g.Begin(t.Context(), tree, "next")
			survey, err := filetree.Examine(filepath.Dir(tree.Dir))
			require.NoError(t, err)
			_, _ = g.Examine(t.Context(), tree, survey)
			after := sh(t, tree.Repository, "find .git -name git -prune -o -type f -print | sort; find '"+person+"' -type f | sort")
			for _, path := range []string{"held.lock", "yarn.lock", "worktrees/person/HEAD", ".git/HEAD", ".git/config"} {
				require.Contains(t, after, path, before)
			}
		})
	}
}
