//go:build unix

package filetree_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/runner/filetree"
)

// TestShrink checks that the oldest files and directories are removed first. Modules and directories that a pattern names are removed
// as a whole or not at all, and locked files stay.
func TestShrink(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	writeFile := func(name string, ageHours int) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		sh(t, dir, `head -c 100000 /dev/zero >"`+path+`"; touch -d "-`+strconv.Itoa(ageHours)+` hours" "`+path+`"`)
	}
	writeFile("go-build/aa/new", 1)
	writeFile("go-build/aa/old", 30)
	writeFile("go-build/bb/old", 31)
	writeFile("go-mod/example.com/m@v1/a/used", 2) // one file of the module was used lately
	writeFile("go-mod/example.com/m@v1/b/old", 90)
	writeFile("go-mod/example.com/old@v1/a/one", 40)
	writeFile("go-mod/example.com/old@v1/b/two", 41)
	writeFile("uv/archive/x/one", 50)
	writeFile("uv/archive/y/two", 3)
	writeFile("cargo/.package-cache", 900)
	require.NoError(t, os.WriteFile(filepath.Join(outside, "file"), []byte("precious"), 0o600))
	sh(t, dir, `ln -s `+outside+` go-build/aa/link; touch -h -d "-90 hours" go-build/aa/link
		find go-mod -depth -type d -exec touch -d "-95 hours" {} + -exec chmod 555 {} +; chmod 755 go-mod go-mod/example.com; touch -d "-32 hours" go-build/bb uv/archive uv/archive/*`)
	limit := filetree.CacheLimit{Dir: dir, MaxBytes: 1 << 30, WholeDirs: []string{"uv/*"}, Keep: []string{"cargo/.package-cache*"}}

	s, err := filetree.Shrink(limit)
	require.NoError(t, err)
	require.Zero(t, s.RemovedBytes)
	require.Greater(t, s.Bytes, int64(1_000_000))

	limit.MaxBytes = 800_000
	s, err = filetree.Shrink(limit)
	require.NoError(t, err)
	require.Positive(t, s.RemovedBytes)
	require.LessOrEqual(t, s.Bytes, limit.MaxBytes)
	require.Equal(t, "cargo/.package-cache\ngo-build/aa/new\ngo-mod/example.com/m@v1/a/used\ngo-mod/example.com/m@v1/b/old\nuv/archive/x/one\nuv/archive/y/two", sh(t, dir, "find . -type f -printf '%P\n' | sort"))
	require.Empty(t, sh(t, dir, "find . -name '*old*' -type d; find . -name 'link'"))
	require.FileExists(t, filepath.Join(outside, "file"))

	limit.MaxBytes = 150_000 // the locked file is never removed
	s, err = filetree.Shrink(limit)
	require.NoError(t, err)
	require.Equal(t, "cargo/.package-cache", sh(t, dir, "find . -type f -printf '%P\n'"))
	require.LessOrEqual(t, s.Bytes, limit.MaxBytes)
}

// TestShrinkWhileUsed checks Shrink while a program creates and removes files and directories.
func TestShrinkWhileUsed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writer := exec.Command("bash", "-c", `while :; do for d in a b c; do mkdir -p "$d/m@v1/x" 2>/dev/null; echo >"$d/m@v1/x/file" 2>/dev/null; rm -rf "$d"; done; done`)
	writer.Dir = dir
	require.NoError(t, writer.Start())
	for range 50 {
		_, err := filetree.Shrink(filetree.CacheLimit{Dir: dir, MaxBytes: 1})
		require.NoError(t, err)
	}
	require.NoError(t, writer.Process.Kill())
	_ = writer.Wait()
	_, err := filetree.Shrink(filetree.CacheLimit{Dir: dir, MaxBytes: 1})
	require.NoError(t, err)
}
