package worktree

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOddRepositories checks that an agent can work on repositories that are unusual but valid, and that its commit
// arrives there.
func TestOddRepositories(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"a branch named fleet":            `git clone -q . "$NEW"; cd "$NEW"; git branch fleet`,
		"a remote branch named fleet":     `git branch fleet; git clone -q . "$NEW"`,
		"HEAD names a missing branch":     `git init -q --bare -b master "$NEW"; git push -q "$NEW" main`,
		"a detached HEAD":                 `git clone -q . "$NEW"; cd "$NEW"; git checkout -q --detach`,
		"a partial clone without blobs":   partialClone("blob:none"),
		"a partial clone without trees":   partialClone("tree:0"),
		"a sparse checkout":               `mkdir a b; touch a/f b/f; git add .; git commit -qm dirs; git clone -q . "$NEW"; cd "$NEW"; git sparse-checkout set a`,
		"a sparse index":                  `mkdir a b; touch a/f b/f; git add .; git commit -qm dirs; git clone -q . "$NEW"; cd "$NEW"; git sparse-checkout set --cone --sparse-index a`,
		"a split index":                   `git clone -q . "$NEW"; cd "$NEW"; git update-index --split-index`,
		"a worktree of a bare clone":      `git clone -q --bare . "$NEW.git"; git -C "$NEW.git" worktree add -q "$NEW" main`,
		"a separate git directory":        `git clone -q --separate-git-dir "$NEW.git" . "$NEW"`,
		"worktree settings":               `git clone -q . "$NEW"; cd "$NEW"; git config extensions.worktreeConfig true; git config --worktree core.worktree "$NEW"`,
		"a commit-graph and a bitmap":     `git clone -q . "$NEW"; cd "$NEW"; git repack -adbq; git commit-graph write --reachable; git multi-pack-index write`,
		"replaced objects":                `git clone -q . "$NEW"; cd "$NEW"; git commit -q --allow-empty -m two; git replace --graft HEAD`,
		"a reference with a strange name": `git clone -q . "$NEW"; cd "$NEW"; git update-ref refs/heads/-x HEAD; git update-ref 'refs/heads/ü{é}' HEAD; git update-ref refs/tags/HEAD HEAD; git update-ref refs/heads/refs/heads/main HEAD`,
		"a reference without its object":  `git clone -q . "$NEW"; cd "$NEW"; echo 1111111111111111111111111111111111111111 >.git/refs/heads/broken; echo x >.git/refs/heads/worse`,
		"a reference to nothing":          `git clone -q . "$NEW"; cd "$NEW"; git symbolic-ref refs/heads/dangling refs/heads/nowhere`,
		"no files":                        `git clone -q . "$NEW"; cd "$NEW"; git rm -q file; git commit -qm empty`,
		"a tracked symbolic link":         `ln -s /etc/passwd link; git add .; git commit -qm link; git clone -q . "$NEW"`,
		"a submodule":                     `git clone -q . sub; git -c protocol.file.allow=always submodule --quiet add "$PWD/sub" s; git commit -qm sub; git clone -q . "$NEW"`,
		"strict settings":                 `git clone -q . "$NEW"; cd "$NEW"; git config core.autocrlf input; git config core.safecrlf true; git config core.sharedRepository group; git config transfer.fsckObjects true; git config core.logAllRefUpdates always; git config receive.denyNonFastForwards true`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repo := filepath.Join(t.TempDir(), "new")
			sh(t, newRepository(t), `NEW="`+repo+`"; `+change)
			g := New(os.Environ(), t.TempDir())
			tree := newTree(t, repo, "")
			var err error
			tree.Branch, err = g.AgentBranch(t.Context(), repo, "papi-1")
			require.NoError(t, err)
			require.NoError(t, g.Add(t.Context(), tree, ""))
			require.NoError(t, g.Begin(t.Context(), tree, "task"))
			require.Empty(t, sh(t, tree.Dir, "git status --porcelain 2>&1 | grep -v '^warning: refname' || true"))
			sh(t, tree.Dir, "echo two >>file; echo new >new; git add -A; git commit -qm mine; git fsck --no-dangling 2>&1 || true")
			sh(t, tree.Dir, "echo three >>new")
			c := mustSnapshot(t, g, tree, "task")
			require.Equal(t, 1, c.Commits)
			require.Equal(t, 2, c.FileCount)
			require.True(t, c.Dirty)
			require.Equal(t, "mine\n", sh(t, repo, "git log -1 --format=%s "+tree.Branch+" --"))
			require.NoError(t, g.Remove(t.Context(), tree, mustExamine(t, g, tree).Branches))
		})
	}
}

// partialClone returns a script that clones the repository without some of its objects.
func partialClone(filter string) string {
	return `mkdir -p a/b; echo deep >a/b/deep; git add .; git commit -qm deep; git rm -q a/b/deep; echo other >other; git add .; git commit -qm other
		git config uploadpack.allowFilter true; git config uploadpack.allowAnySHA1InWant true
		git clone -q --no-checkout --filter=` + filter + ` "file://$PWD" "$NEW"`
}

// TestHEADWithoutCommit checks the message if HEAD has no commit but there are several branches.
func TestHEADWithoutCommit(t *testing.T) {
	t.Parallel()
	repo := filepath.Join(t.TempDir(), "bare")
	sh(t, newRepository(t), `git branch next; git init -q --bare -b master `+repo+`; git push -q `+repo+` main next`)
	err := New(os.Environ(), t.TempDir()).Add(t.Context(), newTree(t, repo, "b"), "")
	require.EqualError(t, err, `HEAD of the repository names the branch "master", which does not exist: set the project's branch to one of main, next`)
}

// TestDamagedRepository checks that a damaged repository is not reported as an empty one.
func TestDamagedRepository(t *testing.T) {
	t.Parallel()
	g := New(os.Environ(), t.TempDir())
	tree := newTree(t, newRepository(t), "b")
	sh(t, tree.Repository, `rm -f .git/objects/*/*`)
	err := g.Add(t.Context(), tree, "")
	require.ErrorContains(t, err, "git cannot read the commit of refs/heads/main in the repository")
}

// TestHooks checks that the hooks that run for a person also run for an agent.
func TestHooks(t *testing.T) {
	t.Parallel()
	const hook = `printf '#!/bin/sh\n. "$(dirname "$0")/lib/helper"\n' >$H/pre-commit; chmod +x $H/pre-commit; mkdir $H/lib; echo 'echo helped >&2' >$H/lib/helper`
	for name, tc := range map[string]struct{ script, want string }{
		"a helper beside the hook":    {`H=.git/hooks; ` + hook, "helped\n"},
		"a directory of the user":     {`mkdir -p "$HOME/hooks"; H="$HOME/hooks"; git config core.hooksPath '~/hooks'; ` + hook, "helped\n"},
		"an absolute directory":       {`mkdir h; H="$PWD/h"; git config core.hooksPath "$H"; ` + hook, "helped\n"},
		"a directory of the worktree": {`mkdir h; H=h; git config core.hooksPath h; ` + hook + `; git add h; git commit -qnm hooks`, "helped\n"},
		"no hooks":                    {`git config core.hooksPath /dev/null`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home, repo := t.TempDir(), newRepository(t)
			cmd := exec.Command("bash", "-ec", tc.script)
			cmd.Dir, cmd.Env = repo, append(os.Environ(), "HOME="+home, "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@b")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			tree := newTree(t, repo, "b")
			require.NoError(t, New(append(os.Environ(), "HOME="+home), t.TempDir()).Add(t.Context(), tree, ""))
			require.Equal(t, tc.want, sh(t, tree.Dir, "export HOME=/nowhere; git commit -q --allow-empty -m x"))
		})
	}
}

// TestPatchApplies applies the patch of a task in another clone.
func TestPatchApplies(t *testing.T) {
	t.Parallel()
	g, tree := createTree(t)
	sh(t, tree.Dir, "seq 200 >long; head -c 2000 /dev/urandom >binary; printf 'no newline' >end; git add .; git commit -qm files; git update-index --chmod=+x end; git commit -qm mode; git checkout -q .")
	require.NoError(t, g.Begin(t.Context(), tree, "task"))
	sh(t, tree.Dir, `git mv long "läng er"; head -c 2000 /dev/urandom >binary; echo more >>end; head -c 300 /dev/urandom >new; printf 'a\rb\n' >cr; ln -s file link; : >empty`)
	c := mustSnapshot(t, g, tree, "task")
	patch := func(path string) string {
		text, more, err := g.Patch(t.Context(), tree.Repository, c.Base, c.Commit, path, 0, 1<<20)
		require.NoError(t, err)
		require.False(t, more)
		return string(text)
	}
	clone := t.TempDir()
	sh(t, clone, "git clone -q "+tree.Repository+" .; git fetch -q origin "+c.Base+"; git checkout -q FETCH_HEAD")
	require.NoError(t, os.WriteFile(filepath.Join(clone, "../patch"), []byte(patch("")), 0o600))
	sh(t, clone, "git apply --index ../patch")
	require.Equal(t, sh(t, tree.Repository, "git rev-parse "+c.Commit+"^{tree}"), sh(t, clone, "git write-tree"))
	require.Contains(t, patch("läng er"), "rename from long\n")
	require.NotContains(t, patch("läng er"), "\n+")
}

// TestAgentDamage checks that Fleet collects commits although the agent has damaged its working copy, and that the next
// task can use the copy.
func TestAgentDamage(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]string{
		"the link is removed":     "rm .git",
		"an interrupted git":      "touch -d tomorrow ../git/index.lock; touch ../git/HEAD.lock ../git/config.lock ../git/refs/heads/fleet/papi-1.lock ../git/packed-refs.lock ../git/shallow.lock",
		"an interrupted worktree": "git worktree add -q --detach wt; echo wt >.gitignore; touch ../git/worktrees/wt/index.lock; git -C . config x.y z",
		"a lock is a directory":   "mkdir ../git/index.lock",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, tree := createTree(t)
			require.NoError(t, g.Begin(t.Context(), tree, "one"))
			sh(t, tree.Dir, "git commit -q --allow-empty -m mine; "+damage)
			require.Empty(t, tree.Problem())
			c := mustSnapshot(t, g, tree, "one")
			require.Equal(t, 1, c.Commits)
			require.NoError(t, g.Begin(t.Context(), tree, "two"))
			sh(t, tree.Dir, "echo two >>file; git add -A; git commit -qm more; git pack-refs --all; git config a.b c; for w in wt*; do [ ! -d $w ] || git -C $w reset -q --hard; done")
			require.Contains(t, collectBranches(t, g, tree), "fleet/papi-1 more\n")
		})
	}
}

// TestLocksOfPeople checks that only old locks are removed in a repository that people use too.
func TestLocksOfPeople(t *testing.T) {
	t.Parallel()
	dir := newRepository(t)
	g, tree := New(os.Environ(), t.TempDir()), Tree{Repository: dir, Dir: dir}
	for lock, kept := range map[string]bool{"index.lock": true, "HEAD.lock": false} {
		path := filepath.Join(dir, ".git", lock)
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		if !kept {
			sh(t, dir, "touch -d '1 hour ago' "+path)
		}
		require.NoError(t, g.Begin(t.Context(), tree, "task"))
		_, err := os.Lstat(path)
		require.Equal(t, kept, err == nil, lock)
	}
}

// TestWorktreesOfAgent checks that an agent can create worktrees, as Claude Code does, and that their commits are
// collected.
func TestWorktreesOfAgent(t *testing.T) {
	t.Parallel()
	g, tree := createTree(t)
	require.Equal(t, tree.Dir+"\n", sh(t, tree.Dir, `cd "$(git rev-parse --absolute-git-dir)"; git rev-parse --show-toplevel`), "Claude Code looks for the working tree in this way")
	sh(t, tree.Dir, `git worktree add -q -b worktree-one .claude/worktrees/one; cd .claude/worktrees/one; git commit -q --allow-empty -m one`)
	sh(t, tree.Dir, `git worktree add -q --detach .claude/worktrees/two; cd .claude/worktrees/two; git commit -q --allow-empty -m two`)
	sh(t, tree.Dir, `mkdir ../git/worktrees/evil; ln -s /etc/passwd ../git/worktrees/evil/HEAD; mkdir ../git/worktrees/pipe; mkfifo ../git/worktrees/pipe/HEAD; mkdir "../git/worktrees/a b"; git rev-parse HEAD >"../git/worktrees/a b/HEAD"`)
	require.Contains(t, collectBranches(t, g, tree), "worktree-one one\n")
	require.Equal(t, "two\n", sh(t, tree.Repository, "git log -1 --format=%s refs/fleet/agent/worktrees/two"))
}

// TestNoTemporaryDirectory checks that git needs no temporary directory of the system.
func TestNoTemporaryDirectory(t *testing.T) {
	g, tree := New(os.Environ(), t.TempDir()), newTree(t, newRepository(t), "b")
	t.Setenv("TMPDIR", "/nowhere")
	require.NoError(t, g.Add(t.Context(), tree, ""))
	require.NoError(t, g.Begin(t.Context(), tree, "task"))
	sh(t, tree.Dir, "echo two >>file; git commit -qam two")
	c := mustSnapshot(t, g, tree, "task")
	require.Equal(t, 1, c.Commits)
	entries, err := os.ReadDir(g.temp)
	require.NoError(t, err)
	require.Empty(t, entries)
}
