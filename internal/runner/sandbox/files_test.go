package sandbox_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/runner/sandbox"
)

// TestDirectories checks that the operations on directories work in the helper, and that an agent cannot direct them elsewhere.
func TestDirectories(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dir, outside := filepath.Join(parent, "agent"), filepath.Join(parent, "outside")
	for _, path := range []string{filepath.Join(dir, "objects"), outside} {
		require.NoError(t, os.MkdirAll(path, 0o700))
	}
	for _, path := range []string{filepath.Join(dir, "HEAD"), filepath.Join(outside, "HEAD")} {
		require.NoError(t, os.WriteFile(path, []byte("text"), 0o600))
	}
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "link")))
	s, err := sandbox.Examine(t.Context(), dir)
	require.NoError(t, err)
	require.Equal(t, int64(2), s.Files)
	require.Equal(t, int64(1), s.Repositories)
	require.NoError(t, sandbox.HideRepositories(t.Context(), dir))
	require.NoFileExists(t, filepath.Join(dir, "HEAD"))
	require.NoError(t, sandbox.ShowRepositories(t.Context(), dir))
	require.FileExists(t, filepath.Join(dir, "HEAD"))
	require.NoError(t, sandbox.RemoveContents(t.Context(), dir))
	remaining, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, remaining)

	require.NoError(t, os.Remove(dir))
	require.NoError(t, os.Symlink(outside, dir))
	require.Error(t, sandbox.RemoveContents(t.Context(), dir))
	require.Error(t, sandbox.HideRepositories(t.Context(), dir))
	require.FileExists(t, filepath.Join(outside, "HEAD"))
}

// TestRemoveUnreadable checks that Remove can remove directories that their owner cannot read.
func TestRemoveUnreadable(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "dir")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a", "b", "file"), nil, 0o600))
	require.NoError(t, os.Chmod(filepath.Join(dir, "a", "b"), 0))
	require.NoError(t, os.Chmod(filepath.Join(dir, "a"), 0))
	require.NoError(t, sandbox.Remove(t.Context(), dir))
	require.NoDirExists(t, dir)
}
