package local_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
)

// TestLanding brings the work of two agents together, checks it, and moves the branch.
func TestLanding(t *testing.T) {
	t.Parallel()
	for name, urlPrefix := range map[string]string{"on this machine": "", "elsewhere": "file://"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, repo := newRepositoryPlace(t, urlPrefix)
			if urlPrefix != "" {
				runScript(t, repo, "git checkout -q --detach") // otherwise the repository refuses pushes to the branch
			}
			r, err := w.Repository("repo")
			require.NoError(t, err)
			onto, err := r.Branch(w.ctx, "")
			require.NoError(t, err)
			require.Equal(t, "main", onto.Name)
			top := onto.Commit
			var all []fleet.Contribution
			for _, script := range []string{"echo two >>file; git commit -qam two", "echo new >new; echo three >three"} { // the second script does not commit its files
				a := w.provisionIn("repo")
				run := w.start(a, script)
				_, o := w.follow(a, run)
				require.Equal(t, fleet.TaskCompleted, o.Status, "%+v", o)
				c := w.changes(a, run)
				w.remove(a)
				require.NoError(t, r.Collect(w.ctx, a, *c))
				all = append(all, fleet.Contribution{Name: run.TaskID, Head: c.Commit})
				result, err := r.Combine(w.ctx, fleet.Combination{
					Contribution: all[len(all)-1], Onto: top, Strategy: fleet.Squash, Message: "Land " + script, At: time.Now(),
					Author: fleet.Person{Name: "papi", Email: "papi@example.com"}, Committer: fleet.Person{Name: "alice", Email: "alice@example.com"},
				})
				require.NoError(t, err)
				require.Empty(t, result.Conflicts)
				top = result.Commit
			}
			found, err := r.Overlaps(w.ctx, onto.Commit, all)
			require.NoError(t, err)
			require.Empty(t, found)
			res, err := r.Check(w.ctx, top, check("1", "cat file new three; git log --oneline | wc -l"))
			require.NoError(t, err)
			require.Equal(t, "one\ntwo\nnew\nthree\n3\n", res.Output)
			require.NoError(t, r.Move(w.ctx, onto, top))
			moved, err := r.Branch(w.ctx, "main")
			require.NoError(t, err)
			require.Equal(t, fleet.Branch{Name: "main", Commit: top}, moved)
			require.Equal(t, top, runScript(t, repo, "git rev-parse main"))
			if urlPrefix == "" {
				require.Equal(t, "one\ntwo\nnew", runScript(t, repo, "git status --porcelain; cat file new"))
			}
			ok, err := r.Contains(w.ctx, top, onto.Commit)
			require.NoError(t, err)
			require.True(t, ok)
			requireReason(t, r.Collect(w.ctx, fleet.Agent{}, fleet.Changes{Commit: strings.Repeat("1", 40)}), fleet.ReasonChangesNotFound)
		})
	}
}

// TestRepositoryErrors checks the reasons of errors for projects whose repositories are missing, empty or unreachable.
func TestRepositoryErrors(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	runScript(t, empty, "git init -q -b main")
	missing := filepath.Join(t.TempDir(), "gone")
	w := newTestPlace(t, func(c *local.Config) {
		c.Projects = append(c.Projects, local.Project{Name: "empty", Repository: empty}, local.Project{Name: "gone", Repository: missing},
			local.Project{Name: "unreachable", Repository: "file://u:password@" + missing}, local.Project{Name: "tag", Repository: empty, Branch: "v1"})
	})
	_, err := w.Repository("no")
	requireReason(t, err, fleet.ReasonProjectNotFound)
	_, err = w.Repository("shell")
	requireReason(t, err, fleet.ReasonUnimplemented)
	for project, reason := range map[string]fleet.Reason{
		"empty": fleet.ReasonBranchNotFound, "tag": fleet.ReasonBranchNotFound, "gone": fleet.ReasonProvisioningFailed, "unreachable": fleet.ReasonProvisioningFailed,
	} {
		r, err := w.Repository(project)
		require.NoError(t, err)
		_, err = r.Branch(w.ctx, "")
		require.Equal(t, reason, fleet.ReasonOf(err), "%s: %v", project, err)
		require.NotContains(t, err.Error(), "password")
		_, err = r.Combine(w.ctx, fleet.Combination{Onto: strings.Repeat("1", 40), Contribution: fleet.Contribution{Head: strings.Repeat("2", 40)}})
		require.Error(t, err, project)
		require.NotEqual(t, fleet.ReasonInternal, fleet.ReasonOf(err), "%s: %v", project, err)
	}
}
