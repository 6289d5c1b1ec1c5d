package agentfile_test

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/place/agentfile"
)

// TestReplaced checks that the functions refuse every kind of file that can replace a regular file. A wrong implementation may
// block forever.
func TestReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inDir := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.WriteFile(inDir("file"), []byte("text"), 0o600))
	require.NoError(t, syscall.Mkfifo(inDir("fifo"), 0o600))
	require.NoError(t, os.Symlink(inDir("file"), inDir("link")))
	require.NoError(t, os.Symlink("/dev/zero", inDir("device")))
	require.NoError(t, os.Mkdir(inDir("dir"), 0o700))
	l, err := net.Listen("unix", inDir("socket"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })

	for _, name := range []string{"fifo", "link", "device", "dir", "socket"} {
		_, err := agentfile.Read(inDir(name), 100)
		require.ErrorIs(t, err, agentfile.ErrReplaced, name)
		require.ErrorIs(t, agentfile.Append(inDir(name), []byte("x")), agentfile.ErrReplaced, name)
		_, err = agentfile.OpenAppend(inDir(name))
		require.ErrorIs(t, err, agentfile.ErrReplaced, name)
		if name != "dir" {
			_, err = agentfile.ReadDir(inDir(name))
			require.ErrorIs(t, err, agentfile.ErrReplaced, name)
		}
	}
	_, err = agentfile.Open("/dev/zero")
	require.ErrorIs(t, err, agentfile.ErrReplaced)

	require.NoError(t, agentfile.Append(inDir("file"), []byte(" more")))
	b, err := agentfile.Read(inDir("file"), 9)
	require.NoError(t, err)
	require.Equal(t, "text more", string(b))
	_, err = agentfile.Read(inDir("file"), 8)
	require.ErrorIs(t, err, agentfile.ErrReplaced)
	_, err = agentfile.Read(inDir("nothing"), 8)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = agentfile.ReadDir(inDir("nothing"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	entries, err := agentfile.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 6)
	require.Equal(t, "device", entries[0].Name())
}
