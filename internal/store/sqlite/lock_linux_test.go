package sqlite_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestLocksAreKept checks from another process that SQLite still holds its locks while a store uses a file. Without
// these locks, the other process could remove the log when it ends.
func TestLocksAreKept(t *testing.T) {
	// The child process checks the locks.
	if path := os.Getenv(childPathEnv); path != "" {
		shared := unix.Flock_t{Type: unix.F_WRLCK, Start: 1<<30 + 2, Len: 510} // see SQLite's os.h
		inUse := unix.Flock_t{Type: unix.F_WRLCK, Start: 128, Len: 1}
		for name, lock := range map[string]*unix.Flock_t{path: &shared, path + "-shm": &inUse} {
			f, err := os.Open(name)
			require.NoError(t, err)
			require.NoError(t, unix.FcntlFlock(f.Fd(), unix.F_GETLK, lock))
			require.NoError(t, f.Close())
			require.Equal(t, os.Getppid(), int(lock.Pid), name)
		}
		return
	}
	t.Parallel()
	s := open(t)
	appendEvent(t, s)
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLocksAreKept$")
	child.Env = append(os.Environ(), fmt.Sprintf("%s=%s", childPathEnv, s.path))
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
