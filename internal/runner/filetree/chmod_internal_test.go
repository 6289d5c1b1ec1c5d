//go:build unix

package filetree

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMakeAccessible checks that makeAccessible changes the mode of a directory, and not that of the target of a link.
func TestMakeAccessible(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	closed, link := filepath.Join(dir, "closed"), filepath.Join(dir, "link")
	require.NoError(t, os.Mkdir(closed, 0))
	require.NoError(t, os.Symlink("closed", link))
	mode := func() os.FileMode {
		info, err := os.Stat(closed)
		require.NoError(t, err)
		return info.Mode().Perm()
	}
	require.Error(t, makeAccessible(unix.AT_FDCWD, link))
	require.Zero(t, mode())
	require.NoError(t, makeAccessible(unix.AT_FDCWD, closed))
	require.Equal(t, os.FileMode(0o700), mode())
}
