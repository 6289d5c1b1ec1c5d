//go:build unix

package filetree_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"fleet/internal/runner/filetree"
)

// sh runs the shell script in the directory, and returns its output.
func sh(t *testing.T, dir, script string) string {
	t.Helper()
	cmd := exec.Command("bash", "-ec", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.TrimSpace(string(out))
}

// createNested creates nested directories, with a file in the innermost one.
func createNested(t *testing.T, dir string, depth int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	require.NoError(t, err)
	for range depth {
		require.NoError(t, unix.Mkdirat(fd, "deep", 0o700))
		next, err := unix.Openat(fd, "deep", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Close(fd))
		fd = next
	}
	f, err := unix.Openat(fd, "file", unix.O_CREAT|unix.O_WRONLY, 0o600)
	require.NoError(t, err)
	require.NoError(t, unix.Close(f))
	require.NoError(t, unix.Close(fd))
}

// TestDepth checks a directory whose nested directories are more than the process may have open descriptors. Their path is also
// longer than a system call accepts.
func TestDepth(t *testing.T) {
	dir := t.TempDir()
	createNested(t, dir, 22_000)
	var limit, low unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	low = unix.Rlimit{Cur: 64, Max: limit.Max}
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, (*syscall.Rlimit)(&low)))
	defer func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, (*syscall.Rlimit)(&limit)) }()
	s, err := filetree.Examine(dir)
	require.NoError(t, err)
	require.Equal(t, int64(1), s.Files)
	require.NoError(t, filetree.HideRepositories(dir))
	require.NoError(t, filetree.RemoveContents(dir))
	remaining, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, remaining)
}

// TestRemoveContents checks that RemoveContents removes read-only directories and many entries, and follows no links.
func TestRemoveContents(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	sh(t, outside, "echo precious >file; mkdir dir; echo precious >dir/file")
	sh(t, dir, `mkdir -p a/b c/d/e wide; echo x >a/b/file; ln -s `+outside+` a/link; ln -s `+outside+`/file c/d/link; mkfifo c/fifo
		(cd wide; seq 5000 | sed s/^/f/ | xargs touch; seq 5000 | sed s/^/d/ | xargs mkdir); chmod 500 c c/d; chmod 0 a/b`)
	require.NoError(t, filetree.RemoveContents(dir))
	remaining, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, remaining)
	require.Equal(t, "precious\nprecious", sh(t, outside, "cat file dir/file"))
	require.Error(t, filetree.RemoveContents(filepath.Join(dir, "missing")))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "link")))
	require.Error(t, filetree.RemoveContents(filepath.Join(dir, "link")), "the directory itself must not be a link")
}

func TestExamine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sh(t, dir, `mkdir -p work/sub/deeper home/.cache/x git/modules; echo >work/one; echo >work/sub/two; echo >work/sub/deeper/three
		git init -q home/.cache/x/repo; git init -q --bare home/bare; echo >git/HEAD; ln -s /etc home/link`)
	s, err := filetree.Examine(dir)
	require.NoError(t, err)
	require.Equal(t, filetree.Part{Files: 3}, s.Parts["work"])
	require.Equal(t, filetree.Part{Files: 2}, s.Parts["work/sub"])
	require.Equal(t, filetree.Part{Files: 1}, s.Parts["work/one"])
	require.Equal(t, filetree.Part{}, s.Parts["git/modules"])
	require.Contains(t, s.Parts, "git/modules")
	require.NotContains(t, s.Parts, "work/sub/two")
	require.Equal(t, filetree.Part{Files: 1}, s.Parts["home/link"])
	require.Equal(t, int64(2), s.Parts["home/.cache"].Repositories, "a working tree and its git directory")
	require.Equal(t, int64(1), s.Parts["home/bare"].Repositories)
	require.Positive(t, s.Bytes)
}

// TestExamineManyEntries checks that Examine lists directories even if there are many other entries.
func TestExamineManyEntries(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sh(t, dir, `mkdir -p work home/dir; echo >work/one; echo >home/dir/two; seq 2000 | sed s/^/session-/ | xargs touch; cd home; seq 2000 | xargs touch`)
	s, err := filetree.Examine(dir)
	require.NoError(t, err)
	require.Equal(t, filetree.Part{Files: 1}, s.Parts["work"])
	require.Equal(t, filetree.Part{Files: 2001}, s.Parts["home"])
	require.Equal(t, filetree.Part{Files: 1}, s.Parts["home/dir"])
	require.Len(t, s.Parts, 201, "the limit holds for each directory, and work has one entry")
}

// TestHide checks that git recognises no repository in a hidden directory, and all of them after ShowRepositories.
func TestHide(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sh(t, dir, `git init -q work; cd work; echo text >HEAD; git add HEAD; git commit -qm one; git worktree add -q --detach ../tmp/tree
		mkdir inner; git init -q inner; git init -q --bare bare; chmod 500 bare
		for repository in .git inner/.git bare; do git --git-dir=$repository config core.fsmonitor 'touch `+dir+`/ran; false'; done`)
	before := sh(t, dir, "find . -name '*HEAD*' | sort; cd work; git status --porcelain; rm -f ../ran")
	require.NoError(t, filetree.HideRepositories(dir))
	require.NoError(t, filetree.HideRepositories(dir), "hiding must be repeatable")
	for _, in := range []string{"work", "work/inner", "work/bare", "tmp/tree"} {
		cmd := exec.Command("git", "-C", filepath.Join(dir, in), "status")
		cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
		out, err := cmd.CombinedOutput()
		require.Error(t, err, "%s: %s", in, out)
		require.Contains(t, string(out), "not a git repository", in)
	}
	require.NoFileExists(t, filepath.Join(dir, "ran"))
	require.NoError(t, filetree.ShowRepositories(dir))
	require.Equal(t, before, sh(t, dir, "find . -name '*HEAD*' | sort; cd work; git status --porcelain; rm -f ../ran"))
}
