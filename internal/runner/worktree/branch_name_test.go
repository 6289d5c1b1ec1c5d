package worktree

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNames checks that every answer names a branch of the repository that has the agent's commits.
func TestNames(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		theirs, mine string   // scripts that people run in the repository, and the agent in its tree
		branch       string   // the branch in the changes of the task
		first        string   // the name of the agent's first branch
		branches     []string // the branches that Examine names
	}{
		"the agent's branch":                 {"true", "true", "fleet/papi-1", "fleet/papi-1", []string{"fleet/papi-1"}},
		"it is checked out":                  {"git checkout -q fleet/papi-1", "true", "fleet/papi-1-2", "fleet/papi-1-2", []string{"fleet/papi-1-2"}},
		"it is checked out, -2 is taken":     {"git branch fleet/papi-1-2; git checkout -q fleet/papi-1", "true", "fleet/papi-1-3", "fleet/papi-1-3", []string{"fleet/papi-1-3"}},
		"somebody made a branch named fleet": {"git branch -D fleet/papi-1; git branch fleet", "true", "fleet-papi-1", "fleet-papi-1", []string{"fleet-papi-1"}},
		"a branch of the agent":              {"true", "git checkout -q -b feature/x", "feature/x", "fleet/papi-1", []string{"feature/x"}},
		"a branch with a name that is taken": {"git branch fix", "git checkout -q -B fix", "fleet/papi-1-fix", "fleet/papi-1", []string{"fleet/papi-1-fix"}},
		"a branch of the repository":         {"true", "git checkout -q main", "fleet/papi-1-main", "fleet/papi-1", []string{"fleet/papi-1-main"}},
		"no branch":                          {"true", "git checkout -q --detach", "", "fleet/papi-1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, tree := createTree(t)
			sh(t, tree.Repository, tc.theirs)
			require.NoError(t, g.Begin(t.Context(), tree, "task"))
			sh(t, tree.Dir, tc.mine+"; git commit -q --allow-empty -m mine")
			c := mustSnapshot(t, g, tree, "task")
			require.Equal(t, tc.branch, c.Branch)
			require.Equal(t, tc.first, tree.PublishedBranch())
			w := mustExamine(t, g, tree)
			require.Equal(t, tc.branches, w.Branches)
			for _, b := range tc.branches {
				require.Equal(t, "mine\n", sh(t, tree.Repository, "git log -1 --format=%s "+b+" --"))
			}
			require.NoError(t, g.Remove(t.Context(), tree, w.Branches))
			for _, b := range tc.branches {
				require.Equal(t, "mine\n", sh(t, tree.Repository, "git log -1 --format=%s "+b+" --"))
			}
		})
	}
}

// TestNameOfMergedBranch checks the name if the agent's branch has a commit that another of its branches had before.
func TestNameOfMergedBranch(t *testing.T) {
	t.Parallel()
	g, tree := createTree(t)
	require.NoError(t, g.Begin(t.Context(), tree, "one"))
	sh(t, tree.Dir, "git commit -q --allow-empty -m mine")
	mustSnapshot(t, g, tree, "one")
	require.NoError(t, g.Begin(t.Context(), tree, "two"))
	sh(t, tree.Dir, "git checkout -q main; git merge -q fleet/papi-1")
	c := mustSnapshot(t, g, tree, "two")
	require.Equal(t, "fleet/papi-1", c.Branch, "main of the repository does not have the commit")
}

// TestAddAgain checks that an agent whose git directory is lost begins where its commits are.
func TestAddAgain(t *testing.T) {
	t.Parallel()
	g, tree := createTree(t)
	sh(t, tree.Repository, "git checkout -q fleet/papi-1")
	sh(t, tree.Dir, "git commit -q --allow-empty -m mine")
	collectBranches(t, g, tree)
	sh(t, tree.Dir, "rm -rf ../git ../work")
	require.NoError(t, g.Add(t.Context(), tree, ""))
	require.Equal(t, "mine\n", sh(t, tree.Dir, "git log -1 --format=%s fleet/papi-1"))
	sh(t, tree.Dir, "git commit -q --allow-empty -m more")
	require.Equal(t, "fleet/papi-1 one\nfleet/papi-1-2 more\nmain one\n", collectBranches(t, g, tree))
}
