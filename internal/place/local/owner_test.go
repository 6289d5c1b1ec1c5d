package local_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
)

// TestRepositoryOfAnotherUser runs agents of root in a repository of another user.
func TestRepositoryOfAnotherUser(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can work in repositories of other users")
	}
	repo := t.TempDir()
	runScript(t, repo, "git init -q -b main; git commit -q --allow-empty -m one; chown -R nobody . ..")
	w := newTestPlace(t, func(c *local.Config) { c.Projects = []local.Project{{Name: "theirs", Repository: repo}} })
	_, err := w.Provision(w.ctx, fleet.Agent{UID: "uid-hidden", Name: "papi", Project: "theirs", Role: "coder"})
	require.ErrorContains(t, err, "confined agents may not read "+filepath.Dir(repo)+",")
	require.NoError(t, os.Chmod(filepath.Dir(repo), 0o755)) //nolint:gosec // everybody may read it
	a := w.provisionIn("theirs")
	r := newRun("echo two >file; git add file; git commit -qm two; git log -1 --format=%s")
	_, o := w.execute(a, r)
	require.Equal(t, "two", o.Summary, "%+v", o)
	c := w.changes(a, r)
	require.Equal(t, 1, c.Commits)
	runScript(t, repo, "git -c safe.directory='*' log -1 --format=%s "+c.Branch+" | grep two; [ -z \"$(find .git/refs ! -user nobody)\" ]")
}
