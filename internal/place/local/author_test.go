package local_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
	"fleet/internal/runner"
	"fleet/internal/runner/sandbox"
)

// TestCommitsWithoutUser checks that agents can commit even if the server's user has no git configuration. Confined agents can commit
// even if the repository requires signatures.
func TestCommitsWithoutUser(t *testing.T) {
	t.Parallel()
	repo, userHome := t.TempDir(), t.TempDir()
	runScript(t, repo, "git init -q -b main; git commit -q --allow-empty -m one; git config commit.gpgsign true; git config user.signingkey nobody")
	runScript(t, repo, "git clone -q . unsigned")
	w := newTestPlace(t, func(c *local.Config) {
		c.Environ = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + userHome}
		author := runner.Author{Name: "Webshop Bot", Email: "bot@example.com"}
		c.Projects = []local.Project{
			{Name: "confined", Repository: repo},
			{Name: "set", Repository: repo, Git: author},
			{Name: "empty"},
			{Name: "open", Repository: filepath.Join(repo, "unsigned"), Sandbox: sandbox.None},
			{Name: "open and set", Repository: filepath.Join(repo, "unsigned"), Sandbox: sandbox.None, Git: author},
		}
	})
	for project, want := range map[string]string{
		"confined": "papi (Fleet) <fleet@localhost>", "open": "papi (Fleet) <fleet@localhost>", "empty": "papi (Fleet) <fleet@localhost>",
		"set": "Webshop Bot <bot@example.com>", "open and set": "Webshop Bot <bot@example.com>",
	} {
		if !strings.HasPrefix(project, "open") && sandbox.Available() != nil {
			continue
		}
		a := w.provisionIn(project)
		_, o := w.runTask(a, `[ -e .git ] || git init -q; git commit -q --allow-empty -m two && git log -1 --format='%an <%ae>'`)
		require.Equal(t, fleet.TaskCompleted, o.Status, "%s: %+v", project, o)
		require.Equal(t, want, o.Summary, project)
		lines, _, err := w.Log(w.ctx, a, 100)
		require.NoError(t, err)
		require.Equal(t, project == "confined" || project == "set", strings.Contains(strings.Join(lines, "\n"), "not signed"), project)
	}
}

// TestAgentChangesGitConfiguration checks that Fleet keeps the settings that an agent has made, and writes nothing through
// links that the agent has made.
func TestAgentChangesGitConfiguration(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	w, a := newShellPlace(t)
	w.mustRun(a, `git config --global user.name Me`)
	require.Equal(t, "Me", w.mustRun(a, `git config user.name`))
	outside := t.TempDir()
	require.NoError(t, exec.Command("sh", "-c", `rm -r "$0/.config" && ln -s "$1" "$0/.config"`, w.home(a, "home"), outside).Run())
	err := w.Connect(a).Dispatch(w.ctx, newRun("true"))
	require.ErrorContains(t, err, "the agent has replaced .config/git in its home")
	entries, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Empty(t, entries)
}
