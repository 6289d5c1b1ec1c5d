package worktree

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestManyDirectories checks that the limit of untracked files also holds for many small directories, and that choosing the
// files takes time proportional to their number.
func TestManyDirectories(t *testing.T) {
	t.Parallel()
	paths := make([]string, 300_000)
	for i := range paths {
		paths[i] = fmt.Sprintf("d%06d/file", i)
	}
	s := staging{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.addNew(paths)
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		require.FailNow(t, "it takes too long")
	}
	require.Equal(t, maxNewFiles, len(s.paths)) //nolint:testifylint // Len would print all paths
	require.Equal(t, []string{"290000 directories in the top directory (290000 files with 0 MiB: too much for uncommitted files)"}, s.result())
}

// TestFewFilesBesideMany checks that directories with many files do not displace single files, wherever the single files are.
func TestFewFilesBesideMany(t *testing.T) {
	t.Parallel()
	var paths []string
	many := func(dir string, n int) {
		for i := range n {
			paths = append(paths, fmt.Sprintf("%s/%06d", dir, i))
		}
	}
	for _, dir := range []string{"a/data", "b/data", "c/data"} {
		many(dir, 20_000)
		paths = append(paths, dir+"/sub/note", dir[:1]+"/note")
	}
	for i := range 1000 {
		many(fmt.Sprintf("node_modules/%04d", i), 60)
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
	for i := range maxNamed + 23 {
		s.leaveOut(fmt.Sprint(i), "why")
	}
	require.Len(t, s.result(), maxNamed+1)
	require.Equal(t, "23 more files and directories (only the first 100 are named)", s.result()[maxNamed])
}

// TestListing checks that a list of paths that is too long leaves out only the files of the directories that have the most
// files.
func TestListing(t *testing.T) {
	t.Parallel()
	var l listing
	write := func(dir string, n int) {
		for i := range n {
			l.add(fmt.Sprintf("%s%060d", dir, i))
		}
	}
	write("note", 1)
	write("src/cache/a/", 300_000)
	write("src/cache/b/", 300_000)
	write("src/", 300_000)
	write("src/note/", 3)
	write("top", 700_000)
	require.Less(t, l.bytes, maxOutput)
	var s staging
	s.leaveOutCounted(&l)
	slices.Sort(s.leftOut)
	require.Contains(t, l.paths, "src/note/"+fmt.Sprintf("%060d", 2))
	require.Equal(t, []string{
		"files in src/ (300000 files: too much for uncommitted files)",
		"files in src/cache/a/ (300000 files: too much for uncommitted files)",
		"files in src/cache/b/ (300000 files: too much for uncommitted files)",
		"files in the top directory (700001 files: too much for uncommitted files)",
	}, s.leftOut)
}

// TestErrorsAreBounded checks that an agent cannot fill the server's memory with error messages of git.
func TestErrorsAreBounded(t *testing.T) {
	t.Parallel()
	b := tailBuffer{}
	n, err := b.Write(bytes.Repeat([]byte("x"), 2*maxMessage))
	require.NoError(t, err, "git must not end because it reports many errors")
	require.Equal(t, 2*maxMessage, n)
	_, err = b.Write([]byte("fatal: the reason"))
	require.NoError(t, err)
	require.LessOrEqual(t, len(b.text), maxMessage)
	require.Contains(t, b.String(), "fatal: the reason")
}
