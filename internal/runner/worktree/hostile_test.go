package worktree

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/runner/sandbox"
)

// TestCommitsComeFirst checks that the agent's commits are kept whatever its working tree looks like, and that the
// changes say which files are not kept, and why.
func TestCommitsComeFirst(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, script string
		leftOut      string // expected in LeftOut; empty if everything is kept
		keptFile     string // a file that the snapshot must have
		confined     bool   // only a confined git meets the problem
	}{
		{"an unreadable file", `echo a >good; echo b >secret; chmod 000 secret`, "secret (", "good", true},
		{"a named pipe instead of a file", `rm file; mkfifo file; echo a >good`, "file (a named pipe)", "good", false},
		{"an encoding without its mark", `echo '*.txt working-tree-encoding=UTF-16' >.gitattributes; echo a >bad.txt; echo a >good`, "bad.txt (", "good", false},
		{"line ends that git does not like", `git config core.safecrlf true; git config core.autocrlf input; printf 'a\r\n' >windows; echo a >good`, "", "windows", false},
		{"a damaged index", `echo a >good; echo damaged >"$(git rev-parse --git-path index)"`, "", "good", false},
		{"no index", `echo a >good; rm "$(git rev-parse --git-path index)"`, "", "good", false},
		{"a pipe instead of the index", `echo a >good; i=$(git rev-parse --git-path index); rm "$i"; mkfifo "$i"`, "", "good", false},
		{"a directory instead of the link", `echo a >good; rm .git; mkdir .git`, "", "good", false},
		{"a link to another directory", `echo a >good; rm .git; ln -s /tmp .git`, "", "good", false},
		{"a pipe instead of the link", `echo a >good; rm .git; mkfifo .git`, "", "good", false},
		{"no HEAD", `echo a >good; rm ../git/HEAD`, "", "good", false},
		{"a directory instead of HEAD", `echo a >good; rm ../git/HEAD; mkdir ../git/HEAD`, "", "good", false},
		{"a damaged HEAD", `echo a >good; printf 'x\x1b]0;title\a' >../git/HEAD`, "", "good", false},
		{"no configuration", `echo a >good; rm ../git/config`, "", "good", false},
		{"a pipe instead of the configuration", `echo a >good; rm ../git/config; mkfifo ../git/config`, "", "good", false},
		{"too many files", `mkdir many; (cd many; seq 10001 | xargs touch); echo a >good`, "many/ (10001 files with 0 MiB: too much for uncommitted files)", "good", false},
		{"too large files", `mkdir big; for i in 1 2 3 4 5; do truncate -s 49M big/$i; done; echo a >good`, "big/1 (1 file with 49 MiB: too much for uncommitted files)", "big/5", false},
		{"many files beside few", `mkdir -p out/data/raw out/data/x; (cd out/data/raw; seq 10001 | xargs touch); echo a >out/data/x/y; echo a >out/data/good`, "out/data/raw/ (10001 files with 0 MiB: too much for uncommitted files)", "out/data/good", false},
		{"a directory that cannot be read", `mkdir shut; echo a >shut/file; chmod 000 shut; echo a >good`, "shut/ (Permission denied)", "good", true},
		{"files with very long paths", `d=$(printf 'd%.0s' {1..100}); mkdir -p home; cd home; for i in $(seq 50); do mkdir $d; cd -P $d; done; echo a >one; echo b >two; cd "$OLD"; echo a >good`, "2 files deep in home/dddd", "good", false},
		{"an index with more paths than the server keeps", `echo a >good; echo b >>file
			{ echo "100644 $(git rev-parse HEAD:file) 0	file"; name=$(printf 'x%.0s' $(seq 200)); seq -f "100644 $(git rev-parse HEAD:file) 0	$name-%07.0f" 200000; } | git update-index --index-info`, "", "good", false},
		{"too many files at the top", `seq 10001 | xargs touch; mkdir dir; echo a >dir/good`, "files in the top directory (", "dir/good", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if tc.confined && sandbox.Available() != nil {
				t.Skip("git is not confined here")
			}
			g, tree := beginTask(t)
			sh(t, tree.Dir, `echo work >work; git add work; git commit -qm work`)
			head := revision(t, tree.Dir, "HEAD")
			sh(t, tree.Dir, "OLD=$PWD; "+tc.script)
			c := mustSnapshot(t, g, tree, "task")
			require.Equal(t, head, revision(t, tree.Repository, tree.Branch))
			require.Equal(t, 1, c.Commits)
			require.True(t, c.Dirty)
			leftOut := strings.Join(c.LeftOut, "\n")
			require.Contains(t, leftOut, tc.leftOut)
			require.Equal(t, tc.leftOut == "", leftOut == "", leftOut)
			sh(t, tree.Repository, "git cat-file -e "+c.Commit+":"+tc.keptFile)
			sh(t, tree.Repository, "git cat-file -e "+c.Commit+":work")
		})
	}
}

// TestSmallObjectsWithManyPaths checks that commits with a few small trees that have millions of paths are kept, although git
// cannot list the paths within its limits.
func TestSmallObjectsWithManyPaths(t *testing.T) {
	t.Parallel()
	g, tree := beginTask(t)
	sh(t, tree.Dir, `
		set -e
		tree=$(for i in $(seq 40); do printf '100644 blob %s\tfile%s\n' "$(git hash-object -w --stdin </dev/null)" "$i"; done | git mktree)
		for level in 1 2 3 4; do tree=$(for i in $(seq 40); do printf '040000 tree %s\tdir%s\n' "$tree" "$i"; done | git mktree); done
		git update-ref HEAD "$(git commit-tree "$tree" -p HEAD -m many)"
		rm "$(git rev-parse --git-path index)"`)
	head := revision(t, tree.Dir, "HEAD")
	g.memory = 256 << 20 // reached sooner than the default
	c := mustSnapshot(t, g, tree, "task")
	require.Equal(t, head, revision(t, tree.Repository, tree.Branch))
	leftOut := strings.Join(c.LeftOut, "\n")
	require.Contains(t, leftOut, "uncommitted files (")
	require.Contains(t, leftOut, "the list of changed files (")
	_, _, err := g.Patch(t.Context(), tree.Repository, c.Base, c.Commit, "", 0, 1<<10)
	if err != nil { // a confined git reaches its memory limit before it prints anything
		_, isGitError := errors.AsType[*Error](err)
		require.True(t, isGitError, "%v", err)
		require.NotErrorIs(t, err, ErrNoCommit)
	}
	_, _, err = g.Patch(t.Context(), tree.Repository, c.Base, strings.Repeat("1", len(head)), "", 0, 1<<10)
	require.ErrorIs(t, err, ErrNoCommit)
}

// TestCommitsComeBeforeLargeFiles checks that the commits and the uncommitted files are kept if the repository cannot take
// the agent's Git LFS files.
func TestCommitsComeBeforeLargeFiles(t *testing.T) {
	t.Parallel()
	g, tree := beginTask(t)
	sh(t, tree.Dir, `
		set -e
		dir="$(git rev-parse --absolute-git-dir)/lfs/objects/ab/ab"; mkdir -p "$dir"; echo a >"$dir/a"
		git commit -q --allow-empty -m work; echo a >good`)
	sh(t, tree.Repository, `rm -rf .git/lfs; touch .git/lfs`)
	head := revision(t, tree.Dir, "HEAD")
	c := mustSnapshot(t, g, tree, "task")
	require.Equal(t, head, revision(t, tree.Repository, tree.Branch))
	sh(t, tree.Repository, "git cat-file -e "+c.Commit+":good")
	require.Equal(t, []string{"files of Git LFS (they cannot be copied into the repository: not a directory)"}, c.LeftOut)
}

// TestLargeFilesOfAgents checks that a huge sparse Git LFS file is not copied, and does not prevent the snapshot.
func TestLargeFilesOfAgents(t *testing.T) {
	t.Parallel()
	g, tree := beginTask(t)
	digest := strings.Repeat("ab", 32)
	sh(t, tree.Dir, `dir="$(git rev-parse --absolute-git-dir)/lfs/objects/ab/ab"; mkdir -p "$dir"; truncate -s 8T "$dir/`+digest+`"; git commit -q --allow-empty -m work`)
	c := mustSnapshot(t, g, tree, "task")
	require.Equal(t, 1, c.Commits)
	require.Empty(t, sh(t, tree.Repository, "find .git/lfs -type f"))
}

// TestNoWorkingDirectory checks that commits are kept if the agent has removed its working directory.
func TestNoWorkingDirectory(t *testing.T) {
	t.Parallel()
	g, tree := beginTask(t)
	head := strings.TrimSpace(sh(t, tree.Dir, `git commit -q --allow-empty -m work; git rev-parse HEAD; rm -rf "$PWD"`))
	c := mustSnapshot(t, g, tree, "task")
	require.Equal(t, head, c.Commit)
	require.Equal(t, head, revision(t, tree.Repository, tree.Branch))
	require.Len(t, c.LeftOut, 1)
	require.Contains(t, c.LeftOut[0], "no longer exists")
}

// TestManyRefs checks that Begin refuses a very long list of an agent's refs, so that the server does not keep it in memory.
func TestManyRefs(t *testing.T) {
	t.Parallel()
	g, tree := beginTask(t)
	sh(t, tree.Dir, `oid=$(git rev-parse HEAD); name=$(printf 'x%.0s' $(seq 200))
		{ echo '# pack-refs with: peeled fully-peeled sorted'; seq -f "$oid refs/tags/$name-%07.0f" 200000; } >"$(git rev-parse --git-dir)/packed-refs"
		git commit -q --allow-empty -m work`)
	sh(t, tree.Repository, "git branch another")
	require.ErrorContains(t, g.Begin(t.Context(), tree, "next"), "MiB")
}

// TestLinkedWorktrees checks that the agent's own worktrees below its working tree are reported as left out only if they have
// uncommitted files, because their commits are collected.
func TestLinkedWorktrees(t *testing.T) {
	t.Parallel()
	g, tree := createTree(t)
	sh(t, tree.Dir, `git worktree add -q -b clean .claude/worktrees/clean; git worktree add -q -b dirty .claude/worktrees/dirty; git worktree add -q --detach .claude/worktrees/detached
		echo two >.claude/worktrees/dirty/new; git init -q inner; cd .claude/worktrees/clean; echo two >>file; git commit -qam two`)
	c := mustSnapshot(t, g, tree, "task")
	require.Equal(t, []string{".claude/worktrees/dirty/ (uncommitted files of a worktree of its own)", "inner/ (a repository of its own)"}, c.LeftOut)
	require.Equal(t, "two\n", sh(t, tree.Repository, "git log -1 --format=%s clean"))
}
