//go:build cgo

package run_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
	"fleet/internal/runner/sandbox"
	"fleet/internal/waittest"
)

// newRepository returns the directory of a git repository with one commit.
func newRepository(t *testing.T) string {
	t.Helper()
	repository := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(repository, "main.go"), []byte("package shop"), 0o600))
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "first"}} {
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", repository}, args...)...).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	return repository
}

// TestWorkingCopy checks that an agent works in a working copy of a project's repository, and that its work is kept.
func TestWorkingCopy(t *testing.T) {
	t.Parallel()
	repository := newRepository(t)
	d := newFixture(t, fleet.AgentConfig{Document: filesDoc}, func(c *local.Config) {
		c.Projects = []local.Project{{Name: "shop", Repository: repository}}
	})

	a := d.agent
	agentConfig := *a.Config
	agentConfig.Place = "local"
	a.UID, a.Project, a.Config = uuid.NewString(), "shop", &agentConfig
	for range 2 { // the second call repeats the first one, as after a crash
		d.provision(a)
		a = d.agent
	}
	require.Empty(t, agentConfig.Dir)
	results := d.callTools("read_file", pathArgument("main.go"), "write_file", map[string]any{"path": "review.md", "content": "Fine."})
	require.Equal(t, "package shop", results[0])
	require.NoFileExists(t, filepath.Join(repository, "review.md"))
	kept, err := d.place.Delete(t.Context(), a)
	require.NoError(t, err)
	require.Contains(t, kept, "is kept in")
	require.NoDirExists(t, a.Location)
	again, err := d.place.Delete(t.Context(), a)
	require.NoError(t, err)
	require.Equal(t, kept, again)

	a.UID, a.Project = uuid.NewString(), "none"
	_, err = d.place.Provision(t.Context(), a)
	require.ErrorContains(t, err, "none")
}

// TestProgramsInWorkingCopy checks what the programs of an agent in a working copy may change, and that the agent's commits are
// kept.
func TestProgramsInWorkingCopy(t *testing.T) {
	t.Parallel()
	if sandbox.Available() != nil {
		t.Skip(sandbox.Available())
	}
	repository, user := newRepository(t), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(user, ".gitconfig"), []byte("[user]\n\tname = Ada\n\temail = ada@example.com\n"), 0o600))
	d := newFixture(t, fleet.AgentConfig{Document: shellDoc}, func(c *local.Config) {
		c.Environ = environment("HOME=" + user)
		c.Projects = []local.Project{{Name: "shop", Repository: repository}, {Name: "alone", Repository: repository, Network: sandbox.Offline}}
	})
	a, agentConfig := d.agent, *d.agent.Config
	agentConfig.Place = "local"
	a.UID, a.Project, a.Config = uuid.NewString(), "shop", &agentConfig
	d.provision(a)
	results := d.shell("git log --oneline && echo more >> main.go && git commit -qam second && git log --oneline | wc -l",
		"echo x > "+filepath.Join(repository, "planted"), "echo x >> "+filepath.Join(repository, ".git", "config"),
		"git log -1 --format=%an && touch ~/cache && git status --short && echo clean")
	require.Contains(t, results[0], "first")
	require.Contains(t, results[0], "2")
	require.Regexp(t, "(?i)denied|read-only|no such", results[1])
	require.Regexp(t, "(?i)denied|read-only|no such", results[2])
	require.Regexp(t, "Ada\\nclean$", results[3], "the agent's home must not be in its working copy")
	r := d.startTask("model: say done")
	d.waitForEnd(r)
	checked, err := d.place.Connect(d.agent).Check(t.Context(), r, fleet.Check{ID: "1", Command: "env | grep -c KEY; git log --oneline | wc -l", Timeout: waittest.Limit})
	require.NoError(t, err)
	require.Equal(t, fleet.CheckPassed, checked.Status)
	require.Equal(t, "0\n2\n", checked.Output, "a check must not get the key of the model")
	kept, err := d.place.Delete(t.Context(), d.agent)
	require.NoError(t, err)
	require.Contains(t, kept, "are kept on the branch")

	a.UID, a.Project = uuid.NewString(), "alone"
	_, err = d.place.Provision(t.Context(), a)
	require.Equal(t, fleet.ReasonProvisioningFailed, fleet.ReasonOf(err))
	require.ErrorContains(t, err, "network: none")
}
