//go:build cgo

package cagent_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/cagent"
	"fleet/internal/place/local"
	"fleet/internal/runner/sandbox"
	"fleet/internal/waittest"
)

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

// TestPlace checks that an agent works in a working copy of a project's repository, and that its work is kept.
func TestPlace(t *testing.T) {
	t.Parallel()
	repository := newRepository(t)
	places, err := local.New(local.Config{Dir: t.TempDir(), Program: "true", Projects: []local.Project{{Name: "shop", Repository: repository}}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, places.Close()) })
	d := newFixture(t, fleet.AgentConfig{Document: filesDoc}, func(c *cagent.Config) { c.Places = places })

	a := d.agent
	agentConfig := *a.Config
	agentConfig.Place = "local"
	a.UID, a.Project, a.Config = uuid.NewString(), "shop", &agentConfig
	for range 2 { // the second call is like a call after a crash
		w, err := d.b.Provision(t.Context(), a)
		require.NoError(t, err)
		a.WorkspaceID, a.Location = w.ID, w.Location
	}
	require.Empty(t, agentConfig.Dir)
	d.agent = a
	results := d.use("read_file", path("main.go"), "write_file", map[string]any{"path": "review.md", "content": "Fine."})
	require.Equal(t, "package shop", results[0])
	require.NoFileExists(t, filepath.Join(repository, "review.md"))
	kept, err := d.b.Delete(t.Context(), a)
	require.NoError(t, err)
	require.Contains(t, kept, "is kept in")
	require.NoDirExists(t, a.Location)
	again, err := d.b.Delete(t.Context(), a)
	require.NoError(t, err)
	require.Equal(t, kept, again)

	a.UID, a.Project = uuid.NewString(), "none"
	_, err = d.b.Provision(t.Context(), a)
	require.ErrorContains(t, err, "none")
}

// TestProgramsInPlace runs an agent whose programs work in a working copy of a project's repository.
func TestProgramsInPlace(t *testing.T) {
	t.Parallel()
	d := newFixture(t, fleet.AgentConfig{Document: shellDoc}, nil)
	repository := newRepository(t)
	places, err := local.New(local.Config{Dir: t.TempDir(), Program: "true", Projects: []local.Project{
		{Name: "shop", Repository: repository}, {Name: "alone", Repository: repository, Network: sandbox.Offline},
	}})
	if sandbox.Available() != nil {
		t.Skip(sandbox.Available())
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, places.Close()) })
	require.NoError(t, d.b.Close())
	d.cfg.Places = places
	user := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(user, ".gitconfig"), []byte("[user]\n\tname = Ada\n\temail = ada@example.com\n"), 0o600))
	d.cfg.LookupEnv = func(name string) (string, bool) {
		if name == "HOME" {
			return user, true
		}
		return environment(name)
	}
	d.open()
	in := func(project string) fleet.Agent {
		a, agentConfig := d.agent, *d.agent.Config
		agentConfig.Place = "local"
		a.UID, a.Project, a.Config = uuid.NewString(), project, &agentConfig
		w, err := d.b.Provision(t.Context(), a)
		require.NoError(t, err)
		a.WorkspaceID, a.Location = w.ID, w.Location
		return a
	}
	d.agent = in("shop")
	results := d.shell("git log --oneline && echo more >> main.go && git commit -qam second && git log --oneline | wc -l",
		"echo x > "+filepath.Join(repository, "planted"), "echo x >> "+filepath.Join(repository, ".git", "config"),
		"git log -1 --format=%an && touch ~/cache && git status --short && echo clean")
	require.Contains(t, results[0], "first")
	require.Contains(t, results[0], "2")
	require.Regexp(t, "(?i)denied|read-only|no such", results[1])
	require.Regexp(t, "(?i)denied|read-only|no such", results[2])
	require.Regexp(t, "Ada\\nclean$", results[3], "the agent's home must not be in its working copy")
	kept, err := d.b.Delete(t.Context(), d.agent)
	require.NoError(t, err)
	require.Contains(t, kept, "are kept on the branch")

	d.agent = in("alone")
	err = d.b.Connect(d.agent).Dispatch(t.Context(), fleet.Run{TaskID: uuid.NewString(), Prompt: "hello", Timeout: waittest.Limit})
	require.Equal(t, fleet.ReasonProvisioningFailed, fleet.ReasonOf(err))
	require.ErrorContains(t, err, "network: none")
	_, err = d.b.Delete(t.Context(), d.agent)
	require.NoError(t, err)
}
