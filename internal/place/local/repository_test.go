package local_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
)

// git runs a shell script in the directory, with an author for commits, and returns its output.
func git(t testing.TB, dir, script string) string {
	t.Helper()
	cmd := exec.Command("bash", "-ec", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.TrimSpace(string(out))
}

// repoWorld returns a world whose project "repo" has a repository with one commit, and the path of the repository.
func repoWorld(t *testing.T, remote bool) (*world, string) {
	t.Helper()
	repo := t.TempDir()
	git(t, repo, "git init -q -b main; echo one >file; git add file; git commit -qm one")
	return newWorld(t, func(c *local.Config) {
		p := local.Project{Name: "repo", Repository: repo, Env: map[string]string{
			"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.com",
		}}
		if remote {
			p.Repository = "file://" + repo
		}
		c.Projects = append(c.Projects, p)
	}), repo
}

func TestRepository(t *testing.T) {
	t.Parallel()
	for name, remote := range map[string]bool{"on this machine": false, "elsewhere": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, repo := repoWorld(t, remote)
			a, b := w.agent("repo"), w.agent("repo")
			_, o := w.do(a, "git branch --show-current; cat file")
			branch := "fleet/papi-" + a.UID[len(a.UID)-8:]
			require.Equal(t, branch+"\none\n", string(o.Payload))
			_, o = w.do(a, "echo two >>file; git commit -qam two; git status --porcelain; git log --oneline | wc -l")
			require.Equal(t, "2", strings.TrimSpace(o.Summary))
			_, o = w.do(b, "cat file") // the other agent works on another branch
			require.Equal(t, "one", o.Summary)
			require.Equal(t, "main", git(t, repo, "git branch --show-current"))

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

func TestDeleteKeepsWork(t *testing.T) {
	t.Parallel()
	const commit = "echo two >>file; git commit -qam two; "
	for _, tc := range []struct {
		name, script string
		dir, branch  bool // whether the directory and the branch must be kept
	}{
		{"nothing to keep", "true", false, false},
		{"uncommitted", "echo two >>file; echo new >new", true, true},
		{"committed", commit, false, true},
		{"committed, and more", commit + "echo three >>file", true, true},
		{"merged", commit + "git branch -f result", false, false},
		{"on another branch", "git checkout -qb fix; " + commit, false, false},
		{"on no branch", "git checkout -q --detach; " + commit, true, true},
		{"half-way through a merge", "git checkout -qb other; " + commit + "git checkout -q -; echo x >file; git commit -qam x; git merge other || true", true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w, repo := repoWorld(t, false)
			a := w.agent("repo")
			_, o := w.do(a, tc.script)
			require.Equal(t, fleet.TaskCompleted, o.Status, "%+v", o)
			w.until(a, w.start(a, "echo at work; sleep 3600"), "at work") // a running task does not prevent the deletion

			kept, err := w.Delete(w.ctx, a)
			require.NoError(t, err)
			tag := "papi-" + a.UID[len(a.UID)-8:]
			dir := filepath.Join(w.dir, "kept", tag)
			require.NoDirExists(t, w.home(a))
			other := map[string]string{"merged": "result", "on another branch": "fix"}[tc.name]
			require.Equal(t, tc.dir || tc.branch || other != "", kept != "", kept)
			require.Contains(t, kept, other)
			require.Equal(t, tc.branch, strings.Contains(git(t, repo, "git branch"), "fleet/"+tag), "whether the branch is kept")
			if tc.branch {
				require.Contains(t, kept, "fleet/"+tag)
				require.Contains(t, kept, repo)
			}
			if !tc.dir {
				require.NoDirExists(t, dir)
				require.NotContains(t, git(t, repo, "git worktree list"), w.dir)
				return
			}
			require.Contains(t, kept, dir)
			require.FileExists(t, filepath.Join(dir, "file"))
			require.Contains(t, git(t, repo, "git worktree list"), dir, "git must list the moved worktree")
			git(t, dir, "git status; git add -A; git commit -qm kept || true")
		})
	}
}

// TestDeleteWithoutRepository deletes agents whose repository was removed or whose worktree is damaged.
func TestDeleteWithoutRepository(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]string{
		"the repository is gone":            `rm -rf "$REPO"`,
		"its git directory is gone":         `rm -rf "$WORK/../git"`,
		"the worktree has another link":     `echo x >"$WORK/.git"`,
		"what is left of it is a directory": `rm -rf "$REPO" "$WORK/.git"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, repo := repoWorld(t, false)
			a := w.agent("repo")
			w.do(a, "echo precious >>file")
			git(t, w.dir, `REPO="`+repo+`" WORK="`+w.home(a, "work")+`"; `+damage)

			ws, err := w.Inspect(w.ctx, a)
			require.NoError(t, err)
			require.Equal(t, fleet.StateUnhealthy, ws.State)
			require.NotEmpty(t, ws.Reason)
			err = w.Connect(a).Dispatch(w.ctx, newRun("true"))
			require.Equal(t, fleet.ReasonAgentOffline, fleet.ReasonOf(err), "%v", err)

			kept, err := w.Delete(w.ctx, a)
			require.NoError(t, err)
			dir := filepath.Join(w.dir, "kept", "papi-"+a.UID[len(a.UID)-8:])
			require.Contains(t, kept, dir)
			text, err := os.ReadFile(filepath.Join(dir, "file"))
			require.NoError(t, err)
			require.Equal(t, "one\nprecious\n", string(text))
		})
	}
}

// TestAgentDamagesRepository checks that the next task can use git.
func TestAgentDamagesRepository(t *testing.T) {
	t.Parallel()
	w, _ := repoWorld(t, false)
	a := w.agent("repo")
	_, o := w.do(a, "rm .git; touch ../git/index.lock ../git/HEAD.lock")
	require.Equal(t, fleet.TaskCompleted, o.Status, "%+v", o)
	_, o = w.do(a, "echo two >>file; git commit -qam two; git log -1 --format=%s")
	require.Equal(t, "two", o.Summary, "%+v", o)
}

// TestNames checks that all answers name the branch of the repository that has the agent's commits.
func TestNames(t *testing.T) {
	t.Parallel()
	w, repo := repoWorld(t, false)
	a := w.agent("repo")
	branch := "fleet/papi-" + a.UID[len(a.UID)-8:]
	git(t, repo, "git checkout -q "+branch)
	r := newRun("git commit -q --allow-empty -m two")
	require.NoError(t, w.Connect(a).Dispatch(w.ctx, r))
	_, o := w.follow(a, r)
	require.Equal(t, fleet.TaskCompleted, o.Status, "%+v", o)
	c, err := w.Connect(a).Changes(w.ctx, r)
	require.NoError(t, err)
	require.Equal(t, branch+"-2", c.Branch)
	ws, err := w.Inspect(w.ctx, a)
	require.NoError(t, err)
	require.Equal(t, branch+"-2", ws.Metadata["branch"])
	kept, err := w.Delete(w.ctx, a)
	require.NoError(t, err)
	require.Contains(t, kept, "branch "+branch+"-2 of ")
	require.Equal(t, "two", git(t, repo, "git log -1 --format=%s "+branch+"-2"))
}

// TestBranchNamedFleet checks that agents can be created although git cannot have the branches fleet and fleet/papi.
func TestBranchNamedFleet(t *testing.T) {
	t.Parallel()
	w, repo := repoWorld(t, false)
	git(t, repo, "git branch fleet")
	a := w.agent("repo")
	_, o := w.do(a, "git commit -q --allow-empty -m two; git branch --show-current")
	require.Equal(t, "fleet-papi-"+a.UID[len(a.UID)-8:], o.Summary, "%+v", o)
}

func TestRestoreWorktree(t *testing.T) {
	t.Parallel()
	w, _ := repoWorld(t, false)
	a := w.agent("repo")
	w.do(a, "echo two >>file; git commit -qam two")
	require.NoError(t, os.RemoveAll(w.home(a, "work")))
	require.NoError(t, w.Stop(w.ctx, a))
	require.NoError(t, w.Start(w.ctx, a))
	_, o := w.do(a, "cat file")
	require.Equal(t, "two", o.Summary)
}

func TestProvisionFailures(t *testing.T) {
	t.Parallel()
	emptyRepo := t.TempDir()
	git(t, emptyRepo, "git init -q")
	w := newWorld(t, func(c *local.Config) {
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
		_, err = w.Delete(w.ctx, a)
		require.NoError(t, err)
	}

	// After the cause was removed, Start must complete the provisioning.
	a := fleet.Agent{UID: "uid-again", Name: "papi", Project: "no commit", Role: "coder"}
	_, err := w.Provision(w.ctx, a)
	require.Error(t, err)
	git(t, emptyRepo, "git commit -q --allow-empty -m one")
	require.NoError(t, w.Start(w.ctx, a))
	_, o := w.do(a, "git log -1 --format=%s")
	require.Equal(t, "one", o.Summary)
}
