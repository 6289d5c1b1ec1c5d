package worktree

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestManyDirectories checks that the limit of untracked files also holds for many small directories, and that choosing the
// files takes time proportional to their number. On a slow machine, it may take more than a minute.
func TestManyDirectories(t *testing.T) {
	t.Parallel()
	add := func(n int) (staging, time.Duration) {
		paths := make([]string, n)
		for i := range paths {
			paths[i] = fmt.Sprintf("d%06d/file", i)
		}
		var s staging
		begun := time.Now()
		s.addNew(paths)
		return s, time.Since(begun)
	}
	s, took := add(300_000)
	if took > time.Minute {
		_, tookTenth := add(30_000)
		require.Less(t, took, 30*tookTenth)
	}
	require.Equal(t, maxNewFiles, len(s.paths)) //nolint:testifylint // Len would print all paths
	require.Equal(t, []string{"290000 directories in the top directory (290000 files with 0 MiB: too much for uncommitted files)"}, s.result())
}

// TestFewFilesBesideMany checks that directories with many files do not displace single files, wherever the single files are.
func TestFewFilesBesideMany(t *testing.T) {
	t.Parallel()
	var paths []string
	addFiles := func(dir string, n int) {
		for i := range n {
			paths = append(paths, fmt.Sprintf("%s/%06d", dir, i))
		}
	}
	for _, dir := range []string{"a/data", "b/data", "c/data"} {
		addFiles(dir, 20_000)
		paths = append(paths, dir+"/sub/note", dir[:1]+"/note")
	}
	for i := range 1000 {
		addFiles(fmt.Sprintf("node_modules/%04d", i), 60)
	}
	paths = append(paths, "node_modules/note", "note")
	s := staging{}
	s.addNew(paths)
	for _, path := range []string{"a/note", "b/data/sub/note", "node_modules/note", "note"} {
		require.Contains(t, s.paths, path)
	}
	require.LessOrEqual(t, len(s.paths), maxNewFiles)
	require.Equal(t, []string{
		"959 directories in node_modules/ (57540 files with 0 MiB: too much for uncommitted files)",
		"files in a/data/ (20000 files with 0 MiB: too much for uncommitted files)",
		"files in b/data/ (20000 files with 0 MiB: too much for uncommitted files)",
		"files in c/data/ (20000 files with 0 MiB: too much for uncommitted files)",
	}, slices.Sorted(slices.Values(s.result())))
}

// TestLeftOutIsCounted checks that the result counts the files that it does not name.
func TestLeftOutIsCounted(t *testing.T) {
	t.Parallel()
	var s staging
	for i := range maxLeftOut + 23 {
		s.leaveOut(fmt.Sprint(i), "why")
	}
	require.Len(t, s.result(), maxLeftOut+1)
	require.Equal(t, "23 more files and directories (only the first 100 are named)", s.result()[maxLeftOut])
}
