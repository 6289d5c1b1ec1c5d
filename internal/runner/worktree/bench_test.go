package worktree

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkTask measures the cost of git at the start and the end of a task, with and without changes.
func BenchmarkTask(b *testing.B) {
	dir := b.TempDir()
	sh(b, dir, "git init -q -b main repo; cd repo; for i in $(seq 1000); do echo $i >f$i; done; git add .; git commit -qm one")
	g := New(os.Environ(), b.TempDir())
	tree := Tree{Repository: filepath.Join(dir, "repo"), Dir: filepath.Join(dir, "work"), GitDir: filepath.Join(dir, "git"), Branch: "b", UID: "agent"}
	require.NoError(b, g.Add(b.Context(), tree, "", false))
	n := 0
	b.Run("begin", func(b *testing.B) {
		for b.Loop() {
			n++
			require.NoError(b, g.Begin(b.Context(), tree, "agent", strconv.Itoa(n)))
		}
	})
	b.Run("end without changes", func(b *testing.B) {
		for b.Loop() {
			_, err := g.Snapshot(b.Context(), tree, "agent", strconv.Itoa(n))
			require.NoError(b, err)
		}
	})
	b.Run("end with changes", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			n++
			sh(b, tree.Dir, "echo "+strconv.Itoa(n)+" >>f1; git commit -qam more; echo x >>f2")
			b.StartTimer()
			_, err := g.Snapshot(b.Context(), tree, "agent", strconv.Itoa(n))
			require.NoError(b, err)
		}
	})
}
