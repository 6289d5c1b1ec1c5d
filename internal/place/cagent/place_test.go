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
)

// TestPlace wants an agent to work in a working copy of a project's repository, and its work to be kept.
func TestPlace(t *testing.T) {
	t.Parallel()
	repository := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(repository, "main.go"), []byte("package shop"), 0o600))
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "first"}} {
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", repository}, args...)...).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	places, err := local.New(local.Config{Dir: t.TempDir(), ShimCommand: []string{"true"}, Projects: []local.Project{{Name: "shop", Repository: repository}}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, places.Close()) })
	d := newDesk(t, fleet.Recipe{Document: filesDoc}, func(c *cagent.Config) { c.Places = places })

	a := d.agent
	recipe := *a.Recipe
	recipe.Place = "local"
	a.UID, a.Project, a.Recipe = uuid.NewString(), "shop", &recipe
	for range 2 { // again, as after a crash
		w, err := d.b.Provision(t.Context(), a)
		require.NoError(t, err)
		a.WorkspaceID, a.Location = w.ID, w.Location
	}
	require.Empty(t, recipe.Dir)
	d.agent = a
	results := d.use("read_file", path("main.go"), "write_file", map[string]any{"path": "review.md", "content": "Fine."})
	require.Equal(t, "package shop", results[0])
	require.NoFileExists(t, filepath.Join(repository, "review.md"))
	kept, err := d.b.Delete(t.Context(), a)
	require.NoError(t, err)
	require.Contains(t, kept, "is kept in")
	require.NoDirExists(t, a.Location)
	kept, err = d.b.Delete(t.Context(), a)
	require.NoError(t, err)
	require.Empty(t, kept)

	a.UID, a.Project = uuid.NewString(), "none"
	_, err = d.b.Provision(t.Context(), a)
	require.ErrorContains(t, err, "none")
}
