package app

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDataDirectoryIsPrivate checks that a fleet does not open a data directory to which other users have any right, unless they
// cannot reach it.
func TestDataDirectoryIsPrivate(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the system has no file modes")
	}
	base, err := os.MkdirTemp("", "fleet-data")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(base)) })
	require.NoError(t, os.Chmod(base, 0o755)) //nolint:gosec // the test needs it
	for mode, refused := range map[os.FileMode]bool{0o755: true, 0o701: true, 0o702: true, 0o704: true, 0o750: false, 0o700: false} {
		dir := filepath.Join(base, mode.String())
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, os.Chmod(dir, mode))
		link := dir + "-link"
		require.NoError(t, os.Symlink(dir, link))
		for _, data := range []string{dir, link} {
			cfg := testConfig(t)
			cfg.Data = data
			a, err := Open(t.Context(), cfg, Options{})
			if refused {
				require.ErrorContains(t, err, "data is "+data+", which other users of this machine can enter or list", mode)
				require.ErrorContains(t, err, "chmod o-rwx "+data, mode)
				continue
			}
			require.NoError(t, err, mode)
			require.NoError(t, a.Close())
		}
	}
	require.NoError(t, checkData(filepath.Join(base, "not", "there", "yet")))
	below := filepath.Join(base, os.FileMode(0o700).String(), "below")
	require.NoError(t, os.Mkdir(below, 0o700))
	require.NoError(t, os.Chmod(below, 0o755)) //nolint:gosec // nobody else can enter its parent
	require.NoError(t, checkData(below))
}
