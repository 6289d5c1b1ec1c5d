package sqlite_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"fleet/internal/store/sqlite"
)

// TestMemoryIsNotReserved opens a store in a file system in memory. The store must not reserve space there, because the
// system would have to clear memory for it.
func TestMemoryIsNotReserved(t *testing.T) {
	t.Parallel()
	var stat unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &stat); err != nil || stat.Type != unix.TMPFS_MAGIC {
		t.Skip("/dev/shm is not a file system in memory")
	}
	dir, err := os.MkdirTemp("/dev/shm", "fleet-test")
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "fleet.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	for _, name := range []string{path, path + "-wal"} {
		info, err := os.Stat(name)
		require.NoError(t, err)
		require.Less(t, info.Sys().(*syscall.Stat_t).Blocks*512, int64(4<<20), name)
	}
}
