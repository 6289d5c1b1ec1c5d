package shim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShortSocket(t *testing.T) {
	t.Parallel()
	path, clean, err := shortSocket("/run/control")
	require.NoError(t, err)
	require.Equal(t, "/run/control", path)
	clean()

	long := filepath.Join(t.TempDir(), strings.Repeat("d", 100))
	require.NoError(t, os.Mkdir(long, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(long, "control"), nil, 0o600))
	path, clean, err = shortSocket(filepath.Join(long, "control"))
	require.NoError(t, err)
	require.LessOrEqual(t, len(path), maxSocketPath)
	require.FileExists(t, path)
	clean()
	require.NoFileExists(t, path)
	require.FileExists(t, filepath.Join(long, "control"))
}
