package shim

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSpareFiles writes to the run's spare files, as on a full disk, until no spare file is left.
func TestSpareFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, data := range SpareFiles() {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600))
	}
	require.NoError(t, os.Remove(filepath.Join(dir, spareName(0))))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, spareName(0)), 0o600), "an agent can replace a spare file")
	for range spareCount - 1 {
		path, err := writeSpare(dir, []byte("exit"))
		require.NoError(t, err)
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "exit", string(data))
	}
	_, err := writeSpare(dir, []byte("exit"))
	require.ErrorIs(t, err, syscall.ENOSPC)
	Run(dir).removeSpares()
}
