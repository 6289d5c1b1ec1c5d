package local_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestResults checks that the files of an agent without a repository are kept for the time in the agent's configuration.
func TestResults(t *testing.T) {
	t.Parallel()
	w := newTestPlace(t, nil)
	a := w.provision(configuredAgent(fleet.AgentConfig{Driver: "shell", KeepFilesFor: time.Hour}))
	ws, err := w.Inspect(w.ctx, a)
	require.NoError(t, err)
	dir := ws.Location
	w.mustRun(a, "pwd; mkdir sub; echo made >sub/file; chmod 500 sub")
	require.Equal(t, "made\n", readFile(t, filepath.Join(dir, "sub", "file")))
	// The agent could have changed its record, so Delete must not trust the record.
	other := t.TempDir()
	record := w.home(a, "agent.json")
	require.NoError(t, os.WriteFile(record, []byte(strings.ReplaceAll(readFile(t, record), dir, other)), 0o600))
	removing := time.Now()
	require.Contains(t, w.remove(a), dir)
	require.Empty(t, w.remove(a), "a repeated deletion must find nothing")
	require.DirExists(t, other)
	require.NoError(t, w.Tidy(w.ctx, removing.Add(59*time.Minute)))
	require.Equal(t, "made\n", readFile(t, filepath.Join(dir, "sub", "file")))
	require.NoError(t, w.Tidy(w.ctx, time.Now().Add(61*time.Minute)))
	left, err := os.ReadDir(filepath.Dir(dir))
	require.NoError(t, err)
	require.Empty(t, left)

	a = w.provision(configuredAgent(fleet.AgentConfig{Driver: "shell", KeepFilesFor: time.Hour}))
	w.runTask(a, "mkdir -p an/empty/tree")
	kept := w.remove(a)
	require.Empty(t, kept)
	left, err = os.ReadDir(filepath.Dir(dir))
	require.NoError(t, err)
	require.Empty(t, left, "an agent without files must leave no results")
}
