//go:build unix

package gitfiles_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/runner/gitfiles"
)

const oid = "0123456789012345678901234567890123456789"

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// TestRead checks that the result stays small and plain, whatever an agent has put into its git directory.
func TestRead(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	pathOf := func(name string) string { return filepath.Join(dir, name) }
	writeFile(t, pathOf("HEAD"), "ref: refs/heads/main\n")
	writeFile(t, pathOf("refs/heads/main"), oid+"\n")
	writeFile(t, pathOf("config"), "[core]\n\tautocrlf = true\n\tfsmonitor = evil\n\teol = "+strings.Repeat("x", 1000)+"\n[core]\n"+strings.Repeat("\teol = lf\n", 5000))
	writeFile(t, pathOf("objects/aa/x"), "")
	require.NoError(t, os.Symlink(outside, pathOf("objects/bb")))
	require.NoError(t, os.Symlink(outside, pathOf("lfs")))
	writeFile(t, pathOf("sharedindex."+oid), "")
	writeFile(t, pathOf("sharedindex.x"), "")
	for i := range 1500 {
		writeFile(t, pathOf(fmt.Sprintf("worktrees/%s%04d/HEAD", strings.Repeat("\x01", 250), i)), oid)
	}
	i, err := gitfiles.Read(dir)
	require.NoError(t, err)
	require.Equal(t, "ref: refs/heads/main", i.Head)
	require.Equal(t, oid, i.Commit)
	require.Contains(t, i.Settings, gitfiles.Setting{Section: "core", Name: "autocrlf", Value: "true"})
	for _, s := range i.Settings {
		require.True(t, s.IsPlain(), "%v", s)
	}
	require.Equal(t, []string{"aa"}, i.ObjectDirs)
	require.Equal(t, []string{"sharedindex." + oid}, i.SharedIndexes)
	require.False(t, i.HasLFS)
	text, err := json.Marshal(i)
	require.NoError(t, err)
	require.Less(t, len(text), 4<<20)

	for _, name := range []string{"HEAD", "config"} {
		require.NoError(t, os.Remove(pathOf(name)))
		require.NoError(t, syscall.Mkfifo(pathOf(name), 0o600))
	}
	require.NoError(t, os.RemoveAll(pathOf("worktrees")))
	require.NoError(t, os.Symlink("/", pathOf("worktrees")))
	i, err = gitfiles.Read(dir)
	require.NoError(t, err)
	require.Empty(t, i.Head)
	require.True(t, i.ConfigBroken)
	require.Empty(t, i.DetachedHeads)
}

// TestSizes checks the sizes of a file whose name is not valid UTF-8, of a named pipe and of a missing file.
func TestSizes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "latin\xe9"), "text")
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	sizes, err := gitfiles.Sizes(gitfiles.Files{Dir: dir, Paths: [][]byte{[]byte("latin\xe9"), []byte("pipe"), []byte("missing")}})
	require.NoError(t, err)
	require.Equal(t, []int64{4, gitfiles.NamedPipe, 0}, sizes)
}

// TestCopyLFS checks that only files whose content has the digest of their name are copied, and only if they are not in Have.
func TestCopyLFS(t *testing.T) {
	t.Parallel()
	dir, have, to := t.TempDir(), t.TempDir(), t.TempDir()
	digest := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return hex.EncodeToString(sum[:])
	}
	for name, text := range map[string]string{digest("one"): "one", digest("two"): "forged", digest("three"): "three"} {
		writeFile(t, filepath.Join(dir, "lfs/objects", gitfiles.LFSPath(name)), text)
	}
	writeFile(t, filepath.Join(have, gitfiles.LFSPath(digest("three"))), "three")
	require.NoError(t, gitfiles.CopyLFS(gitfiles.LFSCopy{From: dir, Have: have, To: to}))
	entries, err := os.ReadDir(to)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, digest("one"), entries[0].Name())
	require.Empty(t, gitfiles.LFSPath("../"+digest("one")))
}

// TestRepair checks that the link to the git directory is restored, and that only locks in the git directory are removed.
func TestRepair(t *testing.T) {
	t.Parallel()
	tree := gitfiles.Tree{GitDir: t.TempDir(), Dir: t.TempDir(), Link: "gitdir: ../git\n", AllLocks: true}
	outside := t.TempDir()
	writeFile(t, filepath.Join(outside, "x.lock"), "")
	writeFile(t, filepath.Join(tree.GitDir, "HEAD"), oid+"\n")
	writeFile(t, filepath.Join(tree.GitDir, "refs/heads/main.lock"), "")
	require.NoError(t, os.Symlink(outside, filepath.Join(tree.GitDir, "refs/link")))
	require.NoError(t, os.Symlink(filepath.Join(outside, "x.lock"), filepath.Join(tree.GitDir, "HEAD.lock")))
	writeFile(t, filepath.Join(tree.Dir, ".git"), "gitdir: /elsewhere\n")
	m, err := gitfiles.Repair(tree)
	require.NoError(t, err)
	require.Equal(t, oid, m.Commit)
	text, err := os.ReadFile(filepath.Join(tree.Dir, ".git"))
	require.NoError(t, err)
	require.Equal(t, tree.Link, string(text))
	require.FileExists(t, filepath.Join(outside, "x.lock"))
	require.NoFileExists(t, filepath.Join(tree.GitDir, "refs/heads/main.lock"))
	_, err = os.Lstat(filepath.Join(tree.GitDir, "HEAD.lock"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
