package worktree

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/runner/sandbox"
)

// collectBranches collects the agent's work, and returns the branches of the repository with the subjects of their commits.
func collectBranches(t *testing.T, g *Git, tree Tree) string {
	t.Helper()
	_, err := g.collectWork(t.Context(), tree, "")
	require.NoError(t, err)
	return sh(t, tree.Repository, "git for-each-ref --format='%(refname:short) %(subject)' refs/heads refs/tags")
}

func TestCollect(t *testing.T) {
	t.Parallel()
	t.Run("the agent cannot write to the repository", func(t *testing.T) {
		t.Parallel()
		g, tree := createTree(t)
		before := sh(t, tree.Repository, "find .git -type f | sort | xargs sha256sum")
		sh(t, tree.Dir, "echo two >>file; git commit -qam two; git branch more; git tag v1; git config a.b c; echo x >.git-hook; git gc -q")
		require.Equal(t, before, sh(t, tree.Repository, "find .git -type f | sort | xargs sha256sum"))
		require.Equal(t, "fleet/papi-1 two\nmain one\nmore two\n", collectBranches(t, g, tree))
		require.Equal(t, "one\ntwo\n", sh(t, tree.Repository, "git show fleet/papi-1:file; git fsck --full 2>&1"))
	})
	t.Run("many objects", func(t *testing.T) {
		t.Parallel()
		g, tree := createTree(t)
		sh(t, tree.Dir, "for i in $(seq 150); do echo $i >f$i; done; git add -A; git commit -qm many")
		require.Equal(t, "fleet/papi-1 many\nmain one\n", collectBranches(t, g, tree))
		require.Equal(t, "150\n", sh(t, tree.Repository, "git show fleet/papi-1:f150; git fsck --full 2>&1"))
	})
	t.Run("branches of others are unchanged", func(t *testing.T) {
		t.Parallel()
		g, tree := createTree(t)
		sh(t, tree.Repository, "git branch theirs; git tag v2; git update-ref refs/remotes/origin/next HEAD; git update-ref refs/remotes/up/HEAD HEAD")
		for range 2 {
			sh(t, tree.Dir, `git commit -q --allow-empty -m mine; for b in main theirs v2 origin/next up cafe feature; do git branch -q -f $b; done
				git update-ref refs/heads/HEAD HEAD`)
			require.Equal(t, strings.Join([]string{
				"feature mine", "fleet/papi-1 mine", "fleet/papi-1-HEAD mine", "fleet/papi-1-cafe mine", "fleet/papi-1-main mine",
				"fleet/papi-1-origin-next mine", "fleet/papi-1-theirs mine", "fleet/papi-1-up mine", "fleet/papi-1-v2 mine", "main one", "theirs one", "v2 one", "",
			}, "\n"), collectBranches(t, g, tree))
		}
	})
	t.Run("a branch changed by someone else", func(t *testing.T) {
		t.Parallel()
		g, tree := createTree(t)
		sh(t, tree.Repository, "git checkout -q fleet/papi-1; git commit -q --allow-empty -m theirs; git checkout -q main")
		sh(t, tree.Dir, "git commit -q --allow-empty -m mine")
		require.Equal(t, "fleet/papi-1 theirs\nfleet/papi-1-2 mine\nmain one\n", collectBranches(t, g, tree))
		sh(t, tree.Dir, "git commit -q --allow-empty -m more")
		require.Equal(t, "fleet/papi-1 theirs\nfleet/papi-1-2 more\nmain one\n", collectBranches(t, g, tree))
	})
	t.Run("a checked-out branch", func(t *testing.T) {
		t.Parallel()
		g, tree := createTree(t)
		sh(t, tree.Repository, "git checkout -q fleet/papi-1")
		sh(t, tree.Dir, "echo two >>file; git commit -qam mine")
		require.Equal(t, "fleet/papi-1 one\nfleet/papi-1-2 mine\nmain one\n", collectBranches(t, g, tree))
		require.Empty(t, sh(t, tree.Repository, "git status --porcelain"))
	})
	t.Run("a deleted branch", func(t *testing.T) {
		t.Parallel()
		g, tree := createTree(t)
		sh(t, tree.Dir, "git commit -q --allow-empty -m mine; git branch more")
		collectBranches(t, g, tree)
		sh(t, tree.Repository, "git branch -q -D more fleet/papi-1")
		require.Equal(t, "main one\n", collectBranches(t, g, tree))
		sh(t, tree.Dir, "git commit -q --allow-empty -m again")
		require.Equal(t, "fleet/papi-1 again\nmain one\n", collectBranches(t, g, tree))
	})
	t.Run("tags and stashed changes are kept as refs of the agent", func(t *testing.T) {
		t.Parallel()
		g, tree := createTree(t)
		sh(t, tree.Dir, "git tag -a -m tag v1; git notes add -m noted; echo two >>file; git stash -q")
		require.Equal(t, "fleet/papi-1 one\nmain one\n", collectBranches(t, g, tree))
		require.Equal(t, "one\ntwo\n", sh(t, tree.Repository, "git show refs/fleet/agent/stash:file"))
		require.Equal(t, "noted\n", sh(t, tree.Repository, "git show refs/fleet/agent/notes/commits:$(git rev-parse main)"))
		require.Equal(t, "tag\n", sh(t, tree.Repository, "git cat-file -t refs/fleet/agent/tags/v1"))
	})
	t.Run("a broken and a valid branch", func(t *testing.T) {
		t.Parallel()
		g, tree := beginTask(t)
		sh(t, tree.Dir, `git commit -q --allow-empty -m good; B=$(git commit-tree -p HEAD -m broken $(echo broken | git hash-object -w --stdin | xargs printf '100644 blob %s\tf\n' | git mktree))
			git update-ref refs/heads/broken $B; find ../git/objects -name "$(git rev-parse $B^{tree} | cut -c3-)" -delete`)
		c := mustSnapshot(t, g, tree, "task")
		require.Equal(t, 1, c.Commits)
		require.Equal(t, "fleet/papi-1 good\nmain one\n", sh(t, tree.Repository, "git for-each-ref --format='%(refname:short) %(subject)' refs/heads; git fsck --full --no-dangling 2>&1"))
	})
	t.Run("broken objects", func(t *testing.T) {
		t.Parallel()
		g, tree := createTree(t)
		for name, script := range map[string]string{
			"a tree with .git in it": `T=$(printf '100644 .git\0%s' "$(git rev-parse HEAD:file | xxd -r -p | tr '\0' '\1')" | git hash-object -t tree -w --literally --stdin)`,
			"a missing parent":       `T=$(git write-tree); git update-ref HEAD $(printf 'tree %s\nparent 1111111111111111111111111111111111111111\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n\nx\n' $T | git hash-object -t commit -w --stdin)`,
		} {
			sh(t, tree.Dir, "git branch -f good HEAD; "+script+`; [ "$(git cat-file -t HEAD)" = commit ]; git rev-parse --verify HEAD^ || git update-ref HEAD $(git commit-tree -p HEAD -m broken $T) `)
			_, err := g.collectWork(t.Context(), tree, "")
			require.ErrorContains(t, err, "fatal: ", name)
			require.Equal(t, "fleet/papi-1 one\nmain one\n", sh(t, tree.Repository, "git for-each-ref --format='%(refname:short) %(subject)' refs/heads; git fsck --full 2>&1"), name)
			sh(t, tree.Dir, "git update-ref HEAD good; git branch -D good")
		}
	})
}

// TestRefresh checks that a task starts with the current branches and tags of the repository.
func TestRefresh(t *testing.T) {
	t.Parallel()
	g, tree := createTree(t)
	refs := "git for-each-ref --format='%(refname) %(subject)'"
	sh(t, tree.Repository, `git branch old; git branch both; git branch theirs`)
	require.NoError(t, g.Begin(t.Context(), tree, "one"))
	require.Contains(t, sh(t, tree.Dir, refs), "refs/heads/old one\n")
	sh(t, tree.Dir, `git checkout -q theirs; git commit -q --allow-empty -m mine; git branch -q -f both`)
	sh(t, tree.Repository, `git commit -q --allow-empty -m two; git branch -q -f both; git branch -q -D old; git branch new; git tag v1
		git update-ref refs/remotes/origin/main HEAD; git update-ref refs/fleet/other/task HEAD`)
	require.NoError(t, g.Begin(t.Context(), tree, "two"))
	require.Equal(t, `refs/heads/both mine
refs/heads/fleet/papi-1 one
refs/heads/main two
refs/heads/new two
refs/heads/theirs mine
refs/remotes/origin/main two
refs/tags/v1 two
`, sh(t, tree.Dir, refs))
	require.Equal(t, "both two\nfleet/papi-1 one\nfleet/papi-1-both mine\nfleet/papi-1-theirs mine\nmain two\nnew two\ntheirs one\nv1 two\n", collectBranches(t, g, tree))
}

// TestBorrowedObjects checks that garbage collection in the repository removes no object that an agent needs.
func TestBorrowedObjects(t *testing.T) {
	t.Parallel()
	g, tree := createTree(t)
	require.NoError(t, g.Begin(t.Context(), tree, "one"))
	sh(t, tree.Dir, "echo two >>file; git commit -qam two; echo three >new; git add new")
	pruneObjects := "git reflog expire --expire=now --all; git gc -q --prune=now"
	sh(t, tree.Repository, `git checkout -q --orphan other; git commit -q --allow-empty -m other; git branch -q -D main fleet/papi-1; `+pruneObjects)
	require.Equal(t, "two\none\n", sh(t, tree.Dir, "git fsck --full --no-dangling 2>&1; git log --format=%s"))
	c := mustSnapshot(t, g, tree, "one")
	require.Equal(t, 2, c.FileCount)
	sh(t, tree.Repository, "git branch -q -D fleet/papi-1;"+pruneObjects)
	sh(t, tree.Dir, "git gc -q --prune=now")
	require.Equal(t, "two\none\n", sh(t, tree.Dir, "git fsck --full --no-dangling 2>&1; git log --format=%s"))
	require.Equal(t, "three\n", sh(t, tree.Repository, "git fsck --full --no-dangling 2>&1; git show refs/fleet/agent/one:new"))
}

// TestRepositories checks that agents can work on repositories of many layouts.
func TestRepositories(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"bare":               `git clone -q --bare . "$NEW"`,
		"a worktree":         `git worktree add -q -b other "$NEW"`,
		"a directory inside": `git clone -q . outer; mkdir outer/sub; ln -s "$PWD/outer/sub" "$NEW"`,
		"borrowed objects":   `git clone -q --shared . "$NEW"`,
		"shallow":            `git commit -q --allow-empty -m two; git clone -q --depth=1 "file://$PWD" "$NEW"`,
		"SHA-256":            `git init -q --object-format=sha256 "$NEW"; cd "$NEW"; echo one >file; git add file; git commit -qm one`,
		"a strange name":     `git clone -q . "$NEW \"x"; ln -s "$NEW \"x" "$NEW"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repo := filepath.Join(t.TempDir(), "new")
			sh(t, newRepository(t), `NEW="`+repo+`"; `+change)
			if real, err := filepath.EvalSymlinks(repo); err == nil {
				repo = real
			}
			g, tree := New(os.Environ(), t.TempDir()), newTree(t, repo, "b")
			require.NoError(t, g.Add(t.Context(), tree, ""))
			require.NoError(t, g.Begin(t.Context(), tree, "task"))
			sh(t, tree.Dir, "echo two >>file; git commit -qam mine")
			c := mustSnapshot(t, g, tree, "task")
			require.Equal(t, 1, c.Commits)
			require.Equal(t, "mine\n", sh(t, repo, "git log -1 --format=%s b; git fsck 2>&1 | grep -v dangling || true"))
			require.NoError(t, g.Remove(t.Context(), tree, []string{"b"}))
		})
	}
	t.Run("settings, hooks and remotes", func(t *testing.T) {
		t.Parallel()
		repo := newRepository(t)
		sh(t, repo, `git config remote.origin.url https://example.com/x; git config remote.origin.fetch '+refs/heads/*:refs/remotes/origin/*'
			git config user.name "Quoted \"name\" # ;"; git config url."git@example.com:".insteadOf 'https://example.com/'
			printf '#!/bin/sh\necho hook ran >&2\n' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; echo ignored >.git/info/exclude
			git update-ref refs/remotes/origin/main HEAD; git symbolic-ref refs/remotes/origin/HEAD refs/remotes/origin/main`)
		tree := newTree(t, repo, "b")
		require.NoError(t, New(os.Environ(), t.TempDir()).Add(t.Context(), tree, ""))
		require.Equal(t, `git@example.com:x
Quoted "name" # ;
hook ran
origin/main
`, sh(t, tree.Dir, `git remote get-url origin; git config user.name; touch ignored; git status --porcelain; git commit -q --allow-empty -m x; git rev-parse --abbrev-ref origin/HEAD`))
	})
}

// TestLargeFiles checks that valid files of Git LFS reach the repository, and that Sweep removes only Fleet's temporary files.
func TestLargeFiles(t *testing.T) {
	t.Parallel()
	g, tree := createTree(t)
	const digest = "486ea46224d1bb4fb680f34f7c9ad96a8f24ec88be73ea8e5a6c65260e9cb8a7" // the SHA-256 of "world"
	sh(t, tree.GitDir, `mkdir -p lfs/objects/48/6e lfs/objects/00/00; printf world >lfs/objects/48/6e/`+digest+`
		printf forged >lfs/objects/00/00/`+strings.Repeat("0", 64)+`; ln -s /etc/passwd lfs/objects/00/00/`+strings.Repeat("1", 64))
	c := mustSnapshot(t, g, tree, "task")
	require.Empty(t, c.LeftOut)
	require.Equal(t, "./48/6e/"+digest+"\n", sh(t, tree.Repository, "cd .git/lfs/objects; find . -type f -o -type l"))
	sh(t, tree.Repository, "rmdir .git/lfs/tmp; mkdir -p .git/lfs/tmp/fleet-1; touch .git/lfs/tmp/fleet-1/x .git/lfs/tmp/theirs")
	require.NoError(t, Sweep(tree.Repository), "a killed process can leave temporary files")
	require.Equal(t, "theirs\n", sh(t, tree.Repository, "ls .git/lfs/tmp"))
}

// TestNamedPipes checks that an agent cannot block Fleet's git forever.
func TestNamedPipes(t *testing.T) {
	t.Parallel()
	if err := sandbox.Available(); err != nil {
		t.Skip(err)
	}
	for name, script := range map[string]string{"a ref": "mkfifo ../git/refs/heads/x", "objects": "rm -f ../git/objects/info/alternates; mkfifo ../git/objects/info/alternates"} {
		g, tree := createTree(t)
		g.timeout = 300 * time.Millisecond
		sh(t, tree.Dir, script)
		w, err := examine(t, g, tree)
		if err == nil {
			err = errors.New(strings.Join(w.Unsaved, ", "))
		}
		require.ErrorContains(t, err, "named pipe", name)
	}
}
