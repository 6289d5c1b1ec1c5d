package shim

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWriteOnce checks that writeOnce needs no space and no spare file if the file exists.
func TestWriteOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "claim")
	require.NoError(t, writeOnce(path, Claim{Void: true}))
	before := time.Unix(1, 0)
	require.NoError(t, os.Chtimes(dir, before, before))
	require.ErrorIs(t, writeOnce(path, Claim{}), os.ErrExist)
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, before, info.ModTime(), "no file may be created")
}

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
