package worktree

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/runner/filetree"
)

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
		want   Work // of a text of Unsaved that begins with @, only the rest must be contained in the actual text
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
		sh(t, tree.Dir, "git -c protocol.file.allow=always submodule --quiet add "+newRepository(t)+" sub; git commit -qm sub; cd sub; "+two+"cd ..; git commit -qam bump")
		w := mustExamine(t, g, tree)
		require.Equal(t, 2, w.Commits)
		require.Contains(t, w.Unsaved, "submodules")
	})
}
