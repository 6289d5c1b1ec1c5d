package app

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/store/sqlite"
	"fleet/internal/store/storetest"
)

// TestBackup checks that a backup is a private and equal copy of the store, and that it replaces no file.
func TestBackup(t *testing.T) {
	t.Parallel()
	dir, s := filledStore(t)
	file := filepath.Join(t.TempDir(), "copy.db")
	code, stdout, stderr := runCommand(t.Context(), []string{"FLEET_DATA=" + dir}, "backup", file)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, file)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	code, _, stderr = runCommand(t.Context(), []string{"FLEET_DATA=" + dir}, "backup", file)
	require.NotZero(t, code)
	require.Contains(t, stderr, "already exists")

	restored, err := sqlite.Open(t.Context(), file, sqlite.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, restored.Close()) }()
	storetest.RequireSame(t, s, restored)

	code, _, stderr = runCommand(t.Context(), []string{"FLEET_DATA=" + t.TempDir()}, "backup", file+"2")
	require.NotZero(t, code)
	require.Contains(t, stderr, "fleet.db")
	require.NoFileExists(t, file+"2")
	code, _, stderr = runCommand(t.Context(), []string{"FLEET_STORE=postgres://me@db.example.com/fleet"}, "backup", file+"2")
	require.NotZero(t, code)
	require.Contains(t, stderr, "pg_dump")
}
