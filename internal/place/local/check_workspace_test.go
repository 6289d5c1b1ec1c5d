package local_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
	"fleet/internal/runner/sandbox"
	"fleet/internal/waittest"
)

// newCheckPlace returns a place with the project "repo", and the project's repository with its newest commit. Checks of the project
// can write the directory shared. change may be nil.
func newCheckPlace(t *testing.T, change func(*local.Config, *local.Project)) (w *testPlace, r fleet.Repository, commit, shared string) {
	t.Helper()
	repo := t.TempDir()
	shared = t.TempDir()
	runScript(t, repo, "git init -q -b main; echo one >file; mkdir dir; ln -s ../file dir/link; git add .; git commit -qm one; git tag v1; echo two >file; git commit -qam two; git checkout -q --detach HEAD^; git remote add origin https://u:secret@localhost/x")
	w = newTestPlace(t, func(c *local.Config) {
		proj := local.Project{Name: "repo", Repository: repo, Write: []string{shared}, Env: map[string]string{"GREETING": "hello", "SHARED": shared}}
		if change != nil {
			change(c, &proj)
		}
		c.Projects = append(c.Projects, proj)
	})
	r, err := w.Repository("repo")
	require.NoError(t, err)
	return w, r, runScript(t, repo, "git rev-parse main"), shared
}

func check(id, command string) fleet.Check {
	return fleet.Check{ID: id, Command: command, Timeout: waittest.Limit}
}

// TestCommitCheck checks the tree, the environment and the result of a check. A repeated check must return the same result without
// execution, until Tidy has removed the result.
func TestCommitCheck(t *testing.T) {
	t.Parallel()
	w, r, commit, shared := newCheckPlace(t, func(c *local.Config, p *local.Project) {
		p.Driver, p.Git.Name = "claude", "Zoë"
		c.Environ = append(os.Environ(), "ANTHROPIC_API_KEY=secretkey", "CLAUDE_CODE_OAUTH_TOKEN=secretkey", "OTHER=other")
		c.PassEnv = append(c.PassEnv, "ANTHROPIC_API_KEY", "OTHER")
		p.Env["ANTHROPIC_AUTH_TOKEN"] = "secretkey"
	})
	const script = `set -e; git rev-parse HEAD; git describe --tags; git status --porcelain; cat file dir/link; git log --oneline | wc -l; git config user.name
		echo $GREETING/$OTHER/$FLEET_PROJECT/$FLEET_CHECK/$FLEET_COMMIT/$FLEET_AGENT$FLEET_TASK_ID; echo x >$HOME/x; echo x >$TMPDIR/x; echo new >new; git add new; git commit -qm new; git update-ref refs/heads/main HEAD
		git remote; env | grep -c secret || true; echo run >>$SHARED/runs; exit 3`
	res, err := r.Check(w.ctx, commit, check("1", script))
	require.NoError(t, err)
	require.Equal(t, fleet.CheckFailed, res.Status, "%+v", res)
	require.Equal(t, 3, *res.ExitCode, "%+v", res)
	require.Equal(t, strings.Join([]string{commit, "v1-1-g" + commit[:7], "two", "two", "2", "Zoë", "hello/other/repo/1/" + commit + "/", "0", ""}, "\n"), res.Output)
	again, err := r.Check(w.ctx, commit, check("1", script))
	require.NoError(t, err)
	require.Equal(t, res, again)
	require.Equal(t, "run\n", readFile(t, filepath.Join(shared, "runs")))
	b, err := r.Branch(w.ctx, "main")
	require.NoError(t, err)
	require.Equal(t, commit, b.Commit)
	left, err := filepath.Glob(filepath.Join(w.dir, "checks", "*", "*"))
	require.NoError(t, err)
	for _, path := range left {
		require.Contains(t, []string{"runs", "log", "active"}, filepath.Base(path))
	}

	require.NoError(t, w.Tidy(w.ctx, time.Now()))
	again, err = r.Check(w.ctx, commit, check("1", script))
	require.NoError(t, err)
	require.Equal(t, res, again, "the first Tidy must keep the result")
	require.NoError(t, w.Tidy(w.ctx, time.Now().Add(48*time.Hour)))
	entries, err := os.ReadDir(filepath.Join(w.dir, "checks"))
	require.NoError(t, err)
	require.Empty(t, entries)

	short := check("2", "sleep 3600")
	short.Timeout = 100 * time.Millisecond
	res, err = r.Check(w.ctx, commit, short)
	require.NoError(t, err)
	require.Equal(t, fleet.CheckTimedOut, res.Status)
	_, err = r.Check(w.ctx, strings.Repeat("1", 40), check("3", "true"))
	requireReason(t, err, fleet.ReasonChangesNotFound)
	entries, err = os.ReadDir(filepath.Join(w.dir, "checks"))
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing of a check that did not begin may be left")
}

// TestCommitCheckIsConfined checks that a check can change neither the repository nor files of the place or of people, and cannot use
// the network.
func TestCommitCheckIsConfined(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	w, r, commit, _ := newCheckPlace(t, func(c *local.Config, p *local.Project) { p.Network = sandbox.Offline })
	workingDir := runScript(t, ".", "pwd")
	res, err := r.Check(w.ctx, commit, check("1", fmt.Sprintf(`common=$(dirname "$(cat ../git/objects/info/alternates)"); git --git-dir=$common rev-parse HEAD
		for attack in "echo x >$common/config" "git --git-dir=$common update-ref refs/heads/main HEAD" "ls %s/agents" "echo x >../runs/x" "echo x >%s/x" "cat </dev/tcp/127.0.0.1/22"; do
			if bash -c "$attack" >/dev/null 2>&1; then echo succeeded: "$attack"; fi; done`, w.dir, workingDir)))
	require.NoError(t, err)
	require.Equal(t, fleet.CheckPassed, res.Status, "%+v", res)
	require.NotContains(t, res.Output, "succeeded")
	require.NoFileExists(t, "x")
}

// TestCommitCheckUnconfined checks that a check without a sandbox also has its own home, and caches in it.
func TestCommitCheckUnconfined(t *testing.T) {
	t.Parallel()
	w, r, commit, _ := newCheckPlace(t, func(c *local.Config, p *local.Project) { p.Sandbox = sandbox.None })
	res, err := r.Check(w.ctx, commit, check("1", "echo x >$HOME/x; echo x >$TMPDIR/x; dirname $HOME; dirname $TMPDIR; git rev-parse HEAD; echo ${GOCACHE-none}"))
	require.NoError(t, err)
	lines := strings.Split(res.Output, "\n")
	require.Equal(t, lines[0], lines[1])
	require.Equal(t, filepath.Join(w.dir, "checks"), filepath.Dir(lines[0]))
	require.Equal(t, []string{commit, "none", ""}, lines[2:])
}

// TestCommitCheckTogether checks that callers of the same check wait for one execution, and that the execution continues if one of them
// gives up.
func TestCommitCheckTogether(t *testing.T) {
	t.Parallel()
	w, r, commit, shared := newCheckPlace(t, nil)
	fifo := filepath.Join(shared, "go")
	runScript(t, shared, "mkfifo go")
	c := check("1", "echo run >>$SHARED/runs; read -r x <$SHARED/go; echo $x")
	var group errgroup.Group
	results := make([]fleet.CheckResult, 3)
	startCheck := func(i int) {
		group.Go(func() (err error) {
			results[i], err = r.Check(w.ctx, commit, c)
			return err
		})
	}
	startCheck(0)
	awaitFile(t, filepath.Join(shared, "runs"))
	cancelledCtx, cancel := context.WithCancel(w.ctx)
	cancelled := make(chan error)
	go func() {
		_, err := r.Check(cancelledCtx, commit, c)
		cancelled <- err
	}()
	startCheck(1)
	startCheck(2)
	cancel()
	require.ErrorIs(t, <-cancelled, context.Canceled)
	require.NoError(t, os.WriteFile(fifo, []byte("went\n"), 0o600))
	require.NoError(t, group.Wait())
	for _, res := range results {
		require.Equal(t, "went\n", res.Output)
	}
	require.Equal(t, "run\n", readFile(t, filepath.Join(shared, "runs")))
}

// TestCommitCheckInterrupted checks that the command ends with the context of its only caller, and that the next call executes the
// command again.
func TestCommitCheckInterrupted(t *testing.T) {
	t.Parallel()
	w, r, commit, shared := newCheckPlace(t, nil)
	c := check("1", `if [ -e $SHARED/again ]; then exit 0; fi; touch $SHARED/begun; sleep 3600`)
	ctx, cancel := context.WithCancel(w.ctx)
	ended := make(chan error, 1)
	go func() {
		_, err := r.Check(ctx, commit, c)
		ended <- err
	}()
	awaitFile(t, filepath.Join(shared, "begun"))
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.NoError(t, os.WriteFile(filepath.Join(shared, "again"), nil, 0o600))
	res, err := r.Check(w.ctx, commit, c)
	require.NoError(t, err)
	require.Equal(t, fleet.CheckPassed, res.Status, "%+v", res)
}

// checkUntilKilled is a server that checks a commit until it is killed.
func checkUntilKilled(dir, repo, commit, shared string) {
	r, err := openServer(dir, []local.Project{projectWithSharedDir(repo, shared)}).Repository("repo")
	if err != nil {
		panic(err)
	}
	_, err = r.Check(context.Background(), commit, checkOfKilledServer)
	panic(fmt.Sprint("the check has ended: ", err))
}

// projectWithSharedDir returns the project of TestCommitCheckOfKilledServer. Its checks can write the directory shared.
func projectWithSharedDir(repo, shared string) local.Project {
	return local.Project{Name: "repo", Repository: repo, Write: []string{shared}, Env: map[string]string{"SHARED": shared}}
}

// checkOfKilledServer is the check that checkUntilKilled executes.
var checkOfKilledServer = check("1", `echo run >>$SHARED/runs; read -r x <$SHARED/go; echo $x`)

// TestCommitCheckOfKilledServer kills servers during a check. The next server must return the result of the only execution, and remove
// the tree.
func TestCommitCheckOfKilledServer(t *testing.T) {
	t.Parallel()
	for name, ended := range map[string]bool{"the check still runs": false, "the check has ended": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, repo, shared := t.TempDir(), t.TempDir(), t.TempDir()
			runScript(t, repo, "git init -q -b main; echo one >file; git add .; git commit -qm one; mkfifo "+shared+"/go")
			commit := runScript(t, repo, "git rev-parse main")
			server := exec.Command(testBinary(t), "check", dir, repo, commit, shared)
			server.Stderr = os.Stderr
			require.NoError(t, server.Start())
			awaitFile(t, filepath.Join(shared, "runs"))
			require.NoError(t, server.Process.Kill())
			_ = server.Wait()
			wrote := make(chan error, 1)
			endCheck := func() { wrote <- os.WriteFile(filepath.Join(shared, "go"), []byte("went\n"), 0o600) } // waits until the check reads
			trees := func() int {
				found, err := filepath.Glob(filepath.Join(dir, "checks", "*", "work"))
				require.NoError(t, err)
				return len(found)
			}
			hasEnded := func() bool {
				found, err := filepath.Glob(filepath.Join(dir, "checks", "*", "runs", "*", "exit.json"))
				require.NoError(t, err)
				return len(found) == 1
			}
			if ended {
				endCheck()
				waittest.Until(t, "nothing signals the end of a check without a server", hasEnded)
			}
			p := newPlace(t, dir, func(c *local.Config) {
				c.Projects = []local.Project{projectWithSharedDir(repo, shared)}
			})
			ctx := waittest.Context(t)
			require.NoError(t, p.Tidy(ctx, time.Now()))
			require.Equal(t, !ended, trees() == 1, "Tidy must remove only the tree of an ended check")
			if !ended {
				go endCheck()
			}
			r, err := p.Repository("repo")
			require.NoError(t, err)
			res, err := r.Check(ctx, commit, checkOfKilledServer)
			require.NoError(t, err)
			require.Equal(t, fleet.CheckPassed, res.Status, "%+v", res)
			require.NoError(t, <-wrote)
			require.Equal(t, "went\n", res.Output)
			require.Equal(t, "run\n", readFile(t, filepath.Join(shared, "runs")))
			require.Zero(t, trees())
			require.NoError(t, p.Close())
			waittest.Until(t, "nothing signals the end of the processes", func() bool { return len(processesIn(t, dir)) == 0 })
		})
	}
}
