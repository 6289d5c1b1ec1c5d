package worktree

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestPushLFS pushes commits with files of Git LFS. Their content must reach the other repository too. If it
// cannot be pushed, the commits are not pushed.
func TestPushLFS(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git-lfs"); err != nil {
		t.Skip("git-lfs is not installed")
	}
	dir, repo := t.TempDir(), newRepository(t)
	to := filepath.Join(dir, "r.git")
	sh(t, repo, "git init -q --bare -b main "+to+"; git remote add origin file://"+to+"; git push -q origin main; git checkout -q -b work; git lfs install --local >/dev/null; "+
		"git lfs track '*.bin' >/dev/null; echo one >a.bin; mkdir d; echo two >d/b.bin; git add .; git commit -qm large; echo small >small; git add .; git commit -qm small")
	g := New(os.Environ(), t.TempDir())
	p := fleet.Push{Commit: revision(t, repo, "work"), Branch: "work"}
	missing, err := g.MissingLFS(t.Context(), repo, p.Commit)
	require.NoError(t, err)
	require.Empty(t, missing)
	_, err = g.Push(t.Context(), repo, "", p)
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\n", sh(t, to, "cat $(find lfs -type f | xargs grep -l one) $(find lfs -type f | xargs grep -l two)"))

	// A mirror has only the pointers.
	mirror := MirrorPath(t.TempDir(), "file://"+to)
	b, err := g.Branch(t.Context(), mirror, "file://"+to, "main")
	require.NoError(t, err)
	sh(t, repo, "echo three >c.bin; git add .; git commit -qm three")
	work := revision(t, repo, "work")
	var pack bytes.Buffer
	require.NoError(t, g.Pack(t.Context(), repo, work, nil, false, &pack))
	require.NoError(t, g.Unpack(t.Context(), mirror, work, &pack))
	missing, err = g.MissingLFS(t.Context(), mirror, work)
	require.NoError(t, err)
	require.Len(t, missing, 1, "the remote has the others")
	require.Error(t, g.MoveSource(t.Context(), "file://"+to, mirror, b, work))
	require.Equal(t, b.Commit, revision(t, to, "main"))
	ok, err := g.AddLFS(mirror, missing[0], strings.NewReader("other"))
	require.NoError(t, err)
	require.False(t, ok)
	var file bytes.Buffer
	require.ErrorIs(t, g.ReadLFS(repo, strings.Repeat("1", 64), &file), os.ErrNotExist)
	require.ErrorIs(t, g.ReadLFS(repo, "../x", &file), os.ErrNotExist)
	require.NoError(t, g.ReadLFS(repo, missing[0], &file))
	ok, err = g.AddLFS(mirror, missing[0], &file)
	require.NoError(t, err)
	require.True(t, ok)
	require.NoError(t, g.MoveSource(t.Context(), "file://"+to, mirror, b, work))
	require.Equal(t, work, revision(t, to, "main"))
	sh(t, dir, "GIT_LFS_SKIP_SMUDGE=0 git clone -q file://"+to+" clone; cd clone; git checkout -q main; git lfs install --local >/dev/null; git lfs pull; grep three c.bin")

	// Without the program, nothing is pushed.
	binDir := t.TempDir()
	for _, name := range []string{"git", "sh"} {
		path, err := exec.LookPath(name)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(path, filepath.Join(binDir, name)))
	}
	sh(t, repo, "echo four >d.bin; git add .; git commit -qm four")
	p = fleet.Push{Commit: revision(t, repo, "work"), Branch: "other"}
	_, err = New(append(os.Environ(), "PATH="+binDir), t.TempDir()).Push(t.Context(), repo, "", p)
	require.ErrorContains(t, err, "the work has 2 files of Git LFS, and git-lfs is not installed")
	require.NotContains(t, sh(t, to, "git branch"), "other")
}
