package app

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"fleet/internal/store/postgres/pgtest"
)

// TestDirectoryInUse runs every command that uses the data directory of a running server. Commands that would act on its
// agents must refuse and name the server. Those that only read, copy or upgrade the store must work.
func TestDirectoryInUse(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	a, err := Open(t.Context(), cfg, Options{})
	require.NoError(t, err)
	s, err := a.Listen("test")
	require.NoError(t, err)
	defer func() { require.NoError(t, s.closeListeners()) }()
	env := []string{"FLEET_DATA=" + cfg.Data, "FLEET_PLACES=" + fakePlace}
	want := fmt.Sprintf("the data directory %s is in use by process %d, which serves gRPC at %s: use that server, or stop it first", cfg.Data, os.Getpid(), s.GRPCAddr())
	for _, args := range [][]string{
		{"serve"},
		{"mcp", "--embedded"},
		{"agent", "list", "--embedded"},
		{"token", "create", "me", "--admin", "--embedded"},
		{"import", "--store", "postgres://fleet@127.0.0.1:1/fleet"},
		{"serve", "--store", "postgres://fleet@127.0.0.1:1/fleet"}, // its agents on this machine are in the same directory
	} {
		code, stdout, stderr := runCommand(t.Context(), env, args...)
		require.NotZero(t, code, args)
		require.Empty(t, stdout, args)
		require.Contains(t, stderr, want, args)
		require.NotContains(t, stderr, "cannot open", args)
	}
	for _, args := range [][]string{{"backup", filepath.Join(t.TempDir(), "copy.db")}, {"migrate", "status"}, {"migrate", "up"}} {
		code, _, stderr := runCommand(t.Context(), env, args...)
		require.Zero(t, code, "%v: %s", args, stderr)
	}
	require.Contains(t, examineFile(t, "", env...)["data"].Message, fmt.Sprintf("in use by process %d, which serves gRPC at %s", os.Getpid(), s.GRPCAddr()))
	require.NoError(t, a.Close())
	require.NotContains(t, examineFile(t, "", env...)["data"].Message, "in use")
	code, _, stderr := runCommand(t.Context(), env, "agent", "list", "--embedded")
	require.Zero(t, code, stderr)
}

// TestServersOnPostgresShareNoDirectory checks that a server on Postgres locks its data directory too.
func TestServersOnPostgresShareNoDirectory(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Store = pgtest.URL(t)
	a, err := Open(t.Context(), cfg, Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, a.Close()) }()
	cfg.Replica = "other"
	_, err = Open(t.Context(), cfg, Options{})
	require.ErrorContains(t, err, "is in use by process")
}

// TestLockWaitsForAnEndingProcess releases a lock while another attempt waits for it. A server that was killed keeps its
// lock until the kernel has removed its process.
func TestLockWaitsForAnEndingProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		first, err := lockData(dir)
		require.NoError(t, err)
		locked := make(chan error, 1)
		go func() {
			second, err := lockData(dir)
			if err == nil {
				err = second.release()
			}
			locked <- err
		}()
		synctest.Wait() // the second attempt sleeps
		require.NoError(t, first.release())
		require.NoError(t, <-locked)
	})
}

// TestLockErrors checks the errors for a directory that cannot be locked, and for a lock whose holder is unknown or elsewhere. A
// lock file that is a symbolic link must not be followed, and a missing directory must not be created.
func TestLockErrors(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, lockError("/data", syscall.ENOLCK, holder{}), "cannot lock the data directory /data: its file system has no locks (no locks available): set data (FLEET_DATA) to a directory on a disk of this machine")
	require.ErrorContains(t, lockError("/data", syscall.EWOULDBLOCK, holder{}), "the data directory /data is in use by another process: wait until it ends, or run one server")
	require.ErrorContains(t, lockError("/data", syscall.EWOULDBLOCK, holder{PID: 7, Host: "elsewhere"}), `in use by process 7 on "elsewhere": wait`)

	dir := t.TempDir()
	require.NoError(t, os.Symlink(filepath.Join(dir, "target"), filepath.Join(dir, lockFile)))
	_, err := lockData(dir)
	require.ErrorIs(t, err, syscall.ELOOP)
	require.NoFileExists(t, filepath.Join(dir, "target"))
	missing := filepath.Join(dir, "missing")
	_, ok := holderOf(missing)
	require.False(t, ok)
	_, err = os.Stat(missing)
	require.ErrorIs(t, err, fs.ErrNotExist, "a look at the holder must not create a directory")
}
