package worktree

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestListing checks that a list of paths that is too long leaves out only the files of the directories that have the most
// files.
func TestListing(t *testing.T) {
	t.Parallel()
	var l listing
	add := func(dir string, n int) {
		for i := range n {
			l.add(fmt.Sprintf("%s%060d", dir, i))
		}
	}
	add("note", 1)
	add("src/cache/a/", 300_000)
	add("src/cache/b/", 300_000)
	add("src/", 300_000)
	add("src/note/", 3)
	add("top", 700_000)
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
