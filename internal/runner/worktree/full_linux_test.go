package worktree

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// smallDisk mounts a file system with the size on a new directory. It skips the test where this process may not mount one.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("fleet-small", dir, "tmpfs", 0, "mode=0700,size="+size); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// fillDisk leaves at most the number of bytes free on the disk. It returns a function that frees the space again.
func fillDisk(t *testing.T, dir string, free int) (release func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.Create(path)
	require.NoError(t, err)
	block := make([]byte, 4096)
	size := int64(0)
	for err == nil {
		var n int
		n, err = f.Write(block)
		size += int64(n)
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, f.Truncate(max(size-int64(free), 0)))
	require.NoError(t, f.Close())
	return func() { require.NoError(t, os.Remove(path)) }
}

// TestFullDisk takes snapshots while a disk is full. Work that does not fit must be named in LeftOut or lead to an error. A snapshot
// after that must have all of it.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T, temp, repository string) (*Git, Tree, string) {
		t.Helper()
		tree := newTree(t, repository, "fleet/papi-1")
		g := New(os.Environ(), temp)
		require.NoError(t, g.Add(t.Context(), tree, ""))
		require.NoError(t, g.Begin(t.Context(), tree, "task"))
		head := sh(t, tree.Dir, `head -c 300000 /dev/urandom >work; git add work; git commit -qm work; head -c 500000 /dev/urandom >new; git rev-parse HEAD`)
		return g, tree, strings.TrimSpace(head)
	}
	t.Run("of temporary files, almost", func(t *testing.T) {
		t.Parallel()
		disk := smallDisk(t, "2m")
		g, tree, head := begin(t, disk, newRepository(t))
		release := fillDisk(t, disk, 100<<10)
		c := mustSnapshot(t, g, tree, "task")
		require.Equal(t, head, c.Commit)
		require.Equal(t, head, revision(t, tree.Repository, tree.Branch))
		require.Contains(t, strings.Join(c.LeftOut, "\n"), "No space left on device")
		release()
		c = mustSnapshot(t, g, tree, "task")
		require.Empty(t, c.LeftOut)
		sh(t, tree.Repository, "git cat-file -e "+c.Commit+":new")
	})
	t.Run("of temporary files", func(t *testing.T) {
		t.Parallel()
		disk := smallDisk(t, "2m")
		g, tree, head := begin(t, disk, newRepository(t))
		fillDisk(t, disk, 0)
		c := mustSnapshot(t, g, tree, "task")
		require.Equal(t, head, revision(t, tree.Repository, tree.Branch))
		require.Empty(t, c.LeftOut, "the disk of the repository has space")
		sh(t, tree.Repository, "git cat-file -e "+c.Commit+":new")
		require.NoError(t, g.Bundle(t.Context(), tree, false, io.Discard))
		require.Empty(t, sh(t, tree.Repository, "ls .git/lfs/tmp"))
	})
	t.Run("of the agent and of temporary files", func(t *testing.T) {
		t.Parallel()
		disk := smallDisk(t, "4m")
		g, tree, head := begin(t, disk, newRepository(t))
		for _, dir := range []string{"work", "git"} {
			require.NoError(t, os.CopyFS(filepath.Join(disk, dir), os.DirFS(filepath.Join(filepath.Dir(tree.Dir), dir))))
		}
		sh(t, disk, "cp "+tree.recordPath()+" "+disk)
		tree.Dir, tree.GitDir = filepath.Join(disk, "work"), filepath.Join(disk, "git")
		release := fillDisk(t, disk, 0)
		_, err := g.Snapshot(t.Context(), tree, "task")
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.Equal(t, head, revision(t, tree.Repository, tree.Branch))
		release()
		c := mustSnapshot(t, g, tree, "task")
		require.Equal(t, tree.Branch, c.Branch)
		sh(t, tree.Repository, "git cat-file -e "+c.Commit+":new")
	})
	t.Run("of the repository", func(t *testing.T) {
		t.Parallel()
		disk := smallDisk(t, "4m")
		repo := filepath.Join(disk, "repo")
		sh(t, disk, "git init -q -b main repo; cd repo; rm .git/hooks/*; echo one >file; git add file; git commit -qm one")
		g, tree, head := begin(t, t.TempDir(), repo)
		release := fillDisk(t, disk, 100<<10)
		_, err := g.Snapshot(t.Context(), tree, "task")
		e, isGitError := errors.AsType[*Error](err)
		require.True(t, isGitError, "%v", err)
		require.Contains(t, e.Message, "No space left on device")
		release()
		c := mustSnapshot(t, g, tree, "task")
		require.Equal(t, head, strings.TrimSpace(sh(t, tree.Repository, "git rev-parse "+tree.Branch+"; git fsck --full --no-dangling 2>&1")))
		sh(t, tree.Repository, "git cat-file -e "+c.Commit+":new")
	})
}
