package local_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
)

// runScript runs a shell script in the directory, with an author for commits, and returns its output.
func runScript(t testing.TB, dir, script string) string {
	t.Helper()
	cmd := exec.Command("bash", "-ec", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.TrimSpace(string(out))
}

// newRepository returns the path of a repository with one commit.
func newRepository(t testing.TB) string {
	t.Helper()
	repo := t.TempDir()
	runScript(t, repo, "git init -q -b main; echo one >file; git add file; git commit -qm one")
	return repo
}

// newRepositoryPlace returns a place whose project "repo" has a repository with one commit, and the path of the repository. The
// project names the repository by its path after urlPrefix, which is empty or the beginning of a URL.
func newRepositoryPlace(t *testing.T, urlPrefix string) (*testPlace, string) {
	t.Helper()
	repo := newRepository(t)
	return newTestPlace(t, func(c *local.Config) {
		proj := local.Project{Name: "repo", Repository: urlPrefix + repo, Env: map[string]string{
			"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.com",
		}}
		c.Projects = append(c.Projects, proj)
	}), repo
}

// newRepositoryAgent returns the place and the repository of newRepositoryPlace, and an agent of the project.
func newRepositoryAgent(t *testing.T) (*testPlace, string, fleet.Agent) {
	t.Helper()
	w, repo := newRepositoryPlace(t, "")
	return w, repo, w.provisionIn("repo")
}

// TestRepository checks that each agent works in a worktree on its own branch, for a repository with a path and one with a URL.
func TestRepository(t *testing.T) {
	t.Parallel()
	for name, urlPrefix := range map[string]string{"on this machine": "", "elsewhere": "file://"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, repo := newRepositoryPlace(t, urlPrefix)
			a, b := w.provisionIn("repo"), w.provisionIn("repo")
			_, o := w.runTask(a, "git branch --show-current; cat file")
			branch := branchOf(a)
			require.Equal(t, branch+"\none\n", string(o.Payload))
			require.Equal(t, "2", w.mustRun(a, "echo two >>file; git commit -qam two; git status --porcelain; git log --oneline | wc -l"))
			require.Equal(t, "one", w.mustRun(b, "cat file")) // the other agent works on another branch
			require.Equal(t, "main", runScript(t, repo, "git branch --show-current"))

			ws, err := w.Inspect(w.ctx, a)
			require.NoError(t, err)
			require.Equal(t, branch, ws.Metadata["branch"])
			require.Equal(t, w.home(a, "work"), ws.Location)
			lines, _, err := w.Log(w.ctx, a, 100)
			require.NoError(t, err)
			require.Contains(t, lines[0], "on the branch "+branch)
			require.Contains(t, lines[len(lines)-1], "ended: exited with code 0")
		})
	}
}

// TestDeleteKeepsWork checks that a deletion loses none of an agent's work, in whatever state the agent has left its directory. The
// answer must describe what is kept, and restoring the agent must bring everything back.
func TestDeleteKeepsWork(t *testing.T) {
	t.Parallel()
	const commit = "echo two >>file; git commit -qam two; "
	for _, tc := range []struct {
		name, script string
		unsaved      string // part of the description of the work in the home; empty: the home must not be kept
		keepsBranch  bool   // whether the branch has commits that must be kept
	}{
		{"nothing to keep", "true", "", false},
		{"uncommitted", "echo two >>file; echo new >new", "2 files", false},
		{"committed", commit, "", true},
		{"committed, and more", commit + "echo three >>file", "1 file", true},
		{"merged", commit + "git branch -f result", "", false},
		{"on no branch", "git checkout -q --detach; " + commit, "1 commit on no branch", false},
		{"half-way through a merge", "git checkout -qb other; " + commit + "git checkout -q -; echo x >file; git commit -qam x; git merge other || true", "a merge", true},
		{"ignored files", "echo built >out; echo out >../git/info/exclude", "1 file", false},
		{"skip-worktree", "git update-index --skip-worktree file; echo two >>file", "1 file", false},
		{"an older stash", "echo 1 >>file; git stash -q; echo 2 >>file; git stash -q", "on no branch", false},
		{"a nested repository", "git init -q inner; cd inner; echo i >i; git add i; git commit -qm i", "files", false},
		{"a worktree in TMPDIR", "git worktree add -q --detach $TMPDIR/tree; cd $TMPDIR/tree; " + commit, "worktrees", false},
		{"a file in TMPDIR", "echo report >$TMPDIR/report", "temporary files (1)", false},
		{"a file in HOME", "echo report >~/report", "files in its home", false},
		{"a clone in a hidden directory", "git init -q ~/.cache/clone", "files in its home", false},
		{"settings", "echo x >~/.settings; mkdir -p ~/.cache/x; echo x >~/.cache/x/y", "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			requireSandbox(t)
			w, repo, a := newRepositoryAgent(t)
			w.mustRun(a, tc.script)
			unsaved, err := w.UnsavedWork(w.ctx, a)
			require.NoError(t, err)
			require.Contains(t, unsaved, tc.unsaved)
			require.Equal(t, tc.unsaved == "", unsaved == "", unsaved)
			w.followUntil(a, w.start(a, "echo at work; sleep 3600"), "at work") // a running task does not prevent the deletion
			files := "find . -path ./runs -prune -o -type f -print | grep -v '^./\\(agent.json\\|log\\|active\\)' | sort | xargs -d '\n' sha256sum"
			before := runScript(t, w.home(a), files)

			kept := w.remove(a)
			again := w.remove(a)
			require.NoDirExists(t, w.home(a))
			branch := branchOf(a)
			if tc.keepsBranch {
				require.Contains(t, runScript(t, repo, "git branch"), branch)
				require.Contains(t, kept, repo)
			}
			found, err := w.KeptWork(w.ctx, a.UID)
			require.NoError(t, err)
			if tc.unsaved == "" {
				require.Equal(t, strings.Contains(tc.script, commit), kept != "", kept)
				require.Equal(t, tc.keepsBranch, strings.Contains(runScript(t, repo, "git branch"), branch), "whether the branch is kept")
				require.Empty(t, found)
				requireReason(t, w.Start(w.ctx, a), fleet.ReasonProvisioningFailed, "nothing must be created in place of lost work")
				return
			}
			require.Equal(t, kept, again)
			require.Len(t, found, 1)
			require.Contains(t, found[0].Reason, tc.unsaved)
			require.Contains(t, kept, found[0].Reason)
			require.Contains(t, kept, found[0].Location)
			require.Contains(t, kept, "fleet agent restore papi")
			require.Positive(t, found[0].Size)
			require.Equal(t, a.Owner, found[0].Owner)
			require.NotContains(t, runScript(t, repo, "git worktree list"), w.dir)

			require.NoError(t, w.Start(w.ctx, a))
			require.Equal(t, before, runScript(t, w.home(a), files))
			found, err = w.KeptWork(w.ctx, "")
			require.NoError(t, err)
			require.Empty(t, found)
			require.Equal(t, "works", w.mustRun(a, "git status >/dev/null; echo works"))
		})
	}
}

// TestKeptDirectoryIsSafe checks that git runs no program that an agent configured when a person looks at a kept directory.
func TestKeptDirectoryIsSafe(t *testing.T) {
	t.Parallel()
	w, _, a := newRepositoryAgent(t)
	trap := filepath.Join(w.home(a, "work"), "ran")
	w.mustRun(a, `git init -q inner; git init -q --bare bare; for d in . inner bare; do git -C $d config core.fsmonitor 'touch `+trap+` `+w.dir+`/ran; false'; done; rm -f ran`)
	w.remove(a)
	found, err := w.KeptWork(w.ctx, a.UID)
	require.NoError(t, err)
	require.Len(t, found, 1)
	for _, dir := range []string{"work", "work/inner", "work/bare", "git"} {
		out := runScript(t, filepath.Join(found[0].Location, dir), "export GIT_CEILING_DIRECTORIES="+w.dir+"; git status 2>&1 || true; git log 2>&1 || true; git diff 2>&1 || true")
		require.Contains(t, out, "not a git repository", dir)
	}
	require.NoFileExists(t, filepath.Join(w.dir, "ran"))
	require.NoFileExists(t, filepath.Join(found[0].Location, "work", "ran"))
}

// TestKeptRetention checks when kept directories are removed.
func TestKeptRetention(t *testing.T) {
	t.Parallel()
	deleteNewAgent := func(t *testing.T, w *testPlace) fleet.Agent {
		a := w.provisionIn("shell")
		w.mustRun(a, "head -c 3000000 /dev/urandom >file; mkdir -p a/b; chmod 500 a")
		w.remove(a)
		return a
	}
	uids := func(t *testing.T, w *testPlace) (all []string) {
		found, err := w.KeptWork(w.ctx, "")
		require.NoError(t, err)
		for _, k := range found {
			all = append(all, k.AgentUID)
		}
		return all
	}
	t.Run("time", func(t *testing.T) {
		t.Parallel()
		w := newTestPlace(t, func(c *local.Config) { c.KeptRetention = 48 * time.Hour })
		a := deleteNewAgent(t, w)
		require.NoError(t, w.Tidy(w.ctx, time.Now().Add(47*time.Hour)))
		require.Equal(t, []string{a.UID}, uids(t, w))
		require.NoError(t, w.Tidy(w.ctx, time.Now().Add(49*time.Hour)))
		require.Empty(t, uids(t, w))
		left, err := os.ReadDir(filepath.Join(w.dir, "kept"))
		require.NoError(t, err)
		require.Empty(t, left)
	})
	t.Run("size", func(t *testing.T) {
		t.Parallel()
		w := newTestPlace(t, func(c *local.Config) { c.KeptMax = 5 << 20 })
		deleteNewAgent(t, w)
		second := deleteNewAgent(t, w)
		require.Equal(t, []string{second.UID}, uids(t, w), "the oldest must be removed")
	})
	t.Run("the newest", func(t *testing.T) {
		t.Parallel()
		w := newTestPlace(t, func(c *local.Config) { c.KeptMax = 1 })
		a := deleteNewAgent(t, w)
		require.Equal(t, []string{a.UID}, uids(t, w), "a deletion must not remove the directory that it has just kept")
	})
}

// TestDeleteWithoutRepository deletes agents whose repository was removed or whose worktree is damaged.
func TestDeleteWithoutRepository(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]string{
		"the repository is gone":       `rm -rf "$REPO"`,
		"its git directory is gone":    `rm -rf "$WORK/../git"`,
		"the worktree has another git": `rm "$WORK/.git"; git init -q "$WORK"`,
		"only its files are left":      `rm -rf "$REPO" "$WORK/.git"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, repo, a := newRepositoryAgent(t)
			w.runTask(a, "echo precious >>file")
			runScript(t, w.dir, `REPO="`+repo+`" WORK="`+w.home(a, "work")+`"; `+damage)

			ws, err := w.Inspect(w.ctx, a)
			require.NoError(t, err)
			require.Equal(t, fleet.StateUnhealthy, ws.State)
			require.NotEmpty(t, ws.Reason)
			requireReason(t, w.Connect(a).Dispatch(w.ctx, newRun("true")), fleet.ReasonAgentOffline)

			kept := w.remove(a)
			dir := filepath.Join(w.dir, "kept", a.UID)
			require.Contains(t, kept, dir)
			text := readFile(t, filepath.Join(dir, "work", "file"))
			require.Equal(t, "one\nprecious\n", text)
		})
	}
}

// TestRestoreWorktree checks that Start restores a missing worktree, and that a task repairs the link to the git directory.
func TestRestoreWorktree(t *testing.T) {
	t.Parallel()
	w, _, a := newRepositoryAgent(t)
	w.runTask(a, "echo two >>file; git commit -qam two")
	require.NoError(t, os.RemoveAll(w.home(a, "work")))
	require.NoError(t, w.Stop(w.ctx, a))
	require.NoError(t, w.Start(w.ctx, a))
	_, o := w.runTask(a, "cat file")
	require.Equal(t, "two", o.Summary)

	require.NoError(t, os.WriteFile(w.home(a, "work", ".git"), []byte("gitdir: /elsewhere\n"), 0o600))
	require.Equal(t, "two", w.mustRun(a, "git log -1 --format=%s"), "the link to the git directory must be restored")
}

// TestProvisionFailures checks the errors of agents that cannot be provisioned, and that Start tries again.
func TestProvisionFailures(t *testing.T) {
	t.Parallel()
	emptyRepo := t.TempDir()
	runScript(t, emptyRepo, "git init -q")
	w := newTestPlace(t, func(c *local.Config) {
		c.Projects = []local.Project{
			{Name: "nowhere", Repository: filepath.Join(emptyRepo, "no")},
			{Name: "no commit", Repository: emptyRepo},
			{Name: "unreachable", Repository: "file://user:secret@/no/such/repo"},
			{Name: "no program", Driver: "command", Command: []string{"no-such-program", "{{.Prompt}}"}},
			{Name: "no claude", Driver: "claude", Env: map[string]string{"PATH": "/nowhere"}},
			{Name: "wrong path", Driver: "command", Command: []string{"/no/such/program"}},
		}
	})
	for _, tc := range []struct{ project, role, want string }{
		{"nowhere", "coder", "there is no directory"},
		{"no commit", "coder", "has no commit"},
		{"unreachable", "coder", "cannot fetch"},
		{"no program", "coder", `the program "no-such-program" was not found`},
		{"no claude", "coder", "npm install -g @anthropic-ai/claude-code"},
		{"wrong path", "coder", "/no/such/program does not exist"},
		{"no such", "coder", `there is no project "no such": there are no claude, no commit, no program, nowhere, unreachable, wrong path`},
		{"nowhere", "boss", `no role "boss": it has coder, operator, manager`},
	} {
		a := fleet.Agent{UID: "uid-" + strings.ReplaceAll(tc.project+tc.role, " ", "-"), Name: "papi", Project: tc.project, Role: tc.role}
		_, err := w.Provision(w.ctx, a)
		require.Equal(t, fleet.ReasonProvisioningFailed, fleet.ReasonOf(err), "%s: %v", tc.project, err)
		require.Contains(t, fleet.PublicMessage(err), tc.want)
		require.NotContains(t, err.Error(), "secret")
		listed, lerr := w.List(w.ctx)
		require.NoError(t, lerr)
		for _, ws := range listed { // the agent must be listed as failed, not as pending
			require.Equal(t, fleet.StateFailed, ws.State, tc.project)
			require.Equal(t, fleet.PublicMessage(err), ws.Reason)
		}
		w.remove(a)
	}

	// After the cause was removed, Start must complete the provisioning.
	a := fleet.Agent{UID: "uid-again", Name: "papi", Project: "no commit", Role: "coder"}
	_, err := w.Provision(w.ctx, a)
	require.Error(t, err)
	runScript(t, emptyRepo, "git commit -q --allow-empty -m one")
	require.NoError(t, w.Start(w.ctx, a))
	require.Equal(t, "one", w.mustRun(a, "git log -1 --format=%s"))
}

// TestChangesOfBrokenTree checks that the commits of an agent are collected even if the agent has broken its tree.
func TestChangesOfBrokenTree(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"a directory instead of the link": "rm .git; git init -q .",
		"a pipe instead of the link":      "rm .git; mkfifo .git",
		"no HEAD":                         "rm ../git/HEAD",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireSandbox(t)
			w, repo, a := newRepositoryAgent(t)
			r := w.start(a, "echo two >>file; git commit -qam two; git rev-parse HEAD; "+script)
			output, o := w.follow(a, r)
			require.Equal(t, fleet.TaskCompleted, o.Status, "%+v", o)
			c := w.changes(a, r)
			require.Equal(t, 1, c.Commits)
			require.Contains(t, runScript(t, repo, "git log --all --format=%H"), strings.Fields(output)[0])
		})
	}
}
