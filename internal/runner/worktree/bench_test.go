package worktree

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/runner/filetree"
)

// BenchmarkTask measures the cost of git at the start and the end of a task, with and without changes.
func BenchmarkTask(b *testing.B) {
	dir := b.TempDir()
	sh(b, dir, "git init -q -b main repo; cd repo; for i in $(seq 1000); do echo $i >f$i; done; git add .; git commit -qm one")
	g := New(os.Environ(), b.TempDir())
	tree := Tree{Repository: filepath.Join(dir, "repo"), Dir: filepath.Join(dir, "work"), GitDir: filepath.Join(dir, "git"), Branch: "b", UID: "agent"}
	require.NoError(b, g.Add(b.Context(), tree, ""))
	n := 0
	b.Run("begin", func(b *testing.B) {
		for b.Loop() {
			n++
			require.NoError(b, g.Begin(b.Context(), tree, strconv.Itoa(n)))
		}
	})
	b.Run("end without changes", func(b *testing.B) {
		for b.Loop() {
			_, err := g.Snapshot(b.Context(), tree, strconv.Itoa(n))
			require.NoError(b, err)
		}
	})
	b.Run("end with changes", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			n++
			sh(b, tree.Dir, "echo "+strconv.Itoa(n)+" >>f1; git commit -qam more; echo x >>f2")
			b.StartTimer()
			_, err := g.Snapshot(b.Context(), tree, strconv.Itoa(n))
			require.NoError(b, err)
		}
	})
}

// BenchmarkManyRefs measures the collection and the examination of an agent with 100,000 branches and 300,000 commits.
func BenchmarkManyRefs(b *testing.B) {
	dir := b.TempDir()
	sh(b, dir, "git init -q -b main repo; cd repo; git commit -q --allow-empty -m one")
	g := New(os.Environ(), b.TempDir())
	tree := Tree{Repository: filepath.Join(dir, "repo"), Dir: filepath.Join(dir, "agent", "work"), GitDir: filepath.Join(dir, "agent", "git"), Branch: "b", UID: "agent"}
	require.NoError(b, os.Mkdir(filepath.Dir(tree.Dir), 0o700))
	require.NoError(b, g.Add(b.Context(), tree, ""))
	sh(b, tree.Dir, `{ echo reset refs/heads/all; echo "from $(git rev-parse HEAD)"; for i in $(seq 300000); do printf 'commit refs/heads/all\ncommitter A <a@example.com> %d +0000\ndata 1\nx\n' $i; done; } | git fast-import --quiet
		{ echo '# pack-refs with: peeled fully-peeled sorted'; git log -100000 --format='%H refs/heads/b/%H' all | sort -k2; } >"$(git rev-parse --git-dir)/packed-refs"`)
	require.NoError(b, g.Begin(b.Context(), tree, "task"))
	survey, err := filetree.Examine(filepath.Dir(tree.Dir))
	require.NoError(b, err)
	b.Run("collect", func(b *testing.B) {
		for b.Loop() {
			_, err := g.Snapshot(b.Context(), tree, "task")
			require.NoError(b, err)
		}
	})
	b.Run("examine", func(b *testing.B) {
		for b.Loop() {
			w, err := g.Examine(b.Context(), tree, survey)
			require.NoError(b, err)
			require.NotEmpty(b, w.Unsaved)
		}
	})
}

// BenchmarkLanding measures the cost of combining work with a branch, and of comparing the work of 30 agents.
func BenchmarkLanding(b *testing.B) {
	repo := b.TempDir()
	sh(b, repo, `git init -q -b main; mkdir d; for i in $(seq 1000); do seq 50 >d/f$i; done; git add .; git commit -qm one
		for i in $(seq 30); do git checkout -q -b w$i main; sed -i "${i}s/$/ x/" d/f1 d/f$i d/f$((i+100)); git commit -qam $i; done; git checkout -q main; sed -i 50s/50/fifty/ d/f500; git commit -qam more`)
	g := New(os.Environ(), b.TempDir())
	var all []fleet.Contribution
	for i := range 30 {
		name := "w" + strconv.Itoa(i+1)
		all = append(all, fleet.Contribution{Name: name, Head: revision(b, repo, name)})
	}
	onto := revision(b, repo, "main")
	for _, s := range []fleet.Strategy{fleet.Squash, fleet.Rebase, fleet.Merge} {
		b.Run(string(s), func(b *testing.B) {
			for b.Loop() {
				r, err := g.Combine(b.Context(), repo, fleet.Combination{Contribution: all[0], Onto: onto, Strategy: s, Message: "x"})
				require.NoError(b, err)
				require.NotEmpty(b, r.Commit)
			}
		})
	}
	b.Run("overlaps", func(b *testing.B) {
		for b.Loop() {
			found, err := g.Overlaps(b.Context(), repo, onto, all)
			require.NoError(b, err)
			require.NotEmpty(b, found)
		}
	})
}
