package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/runner/remote"
	"fleet/internal/waittest"
)

// clonedAgent is an agent that works in a clone of a repository.
type clonedAgent struct {
	*testRunner
	agent fleet.Agent
}

// newClonedAgent starts an agent in a new clone of the repository at origin.
func newClonedAgent(t *testing.T, name, origin string) clonedAgent {
	t.Helper()
	c := clonedAgent{newTestRunner(t, "-driver", "shell"), fleet.Agent{UID: "uid-" + name, Name: name, Project: "shop"}}
	runScript(t, "git clone -q "+origin+" "+c.clone()+"; cd "+c.clone()+"; git config user.name "+name+"; git config user.email "+name+"@example.com")
	return c
}

func (c clonedAgent) clone() string { return filepath.Join(c.dir, "work") }

// runScript runs a shell script and returns its output without spaces around it.
func runScript(t *testing.T, script string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-ec", script).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

// runForChanges executes a task and returns its changes.
func (c clonedAgent) runForChanges(ctx context.Context, id, script string) fleet.Changes {
	c.t.Helper()
	a := c.client.Connect(c.agent)
	r := fleet.Run{TaskID: id, Timeout: waittest.Limit, Prompt: script}
	_, o := c.runTask(ctx, a, r, "")
	require.Equal(c.t, fleet.TaskCompleted, o.Status, "%+v", o)
	changes, err := a.Changes(ctx, r)
	require.NoError(c.t, err)
	return *changes
}

// These are the values of the parameter whole of remote.Repository.Pack.
const partialPack, wholePack = false, true

// copyPack copies the commit from the clone of one agent to the repository of another agent's runner. It returns false if neither the
// pack nor that repository has all objects of the commit.
func copyPack(ctx context.Context, from, to remote.Repository, commit string, have []string, whole bool) (bool, error) {
	in, out := io.Pipe()
	go func() { _ = out.CloseWithError(from.Pack(ctx, commit, have, whole, out)) }()
	return to.Unpack(ctx, commit, in)
}

// combination returns the request to combine the changes with the commit onto.
func combination(c fleet.Changes, onto string) fleet.Combination {
	return fleet.Combination{
		Contribution: fleet.Contribution{Head: c.Commit, Since: c.Base}, Onto: onto, Strategy: fleet.Squash, Message: "Land it",
		Author: fleet.Person{Name: "papi"}, Committer: fleet.Person{Name: "alice"}, At: time.Unix(1795852800, 0),
	}
}

// TestLanding combines the work of agents in two workspaces. Bob's runner does this, and is killed and restarted between the steps.
func TestLanding(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*waittest.Limit)
	defer cancel()
	origin, shared := filepath.Join(t.TempDir(), "shop.git"), t.TempDir()
	runScript(t, "git init -q --bare -b main "+origin+"; git clone -q "+origin+" "+shared+"/first 2>/dev/null; cd "+shared+"/first; echo one >file; git add .; "+
		"git -c user.name=a -c user.email=a@example.com commit -qm one; git push -q origin HEAD:main")
	ann, bob := newClonedAgent(t, "ann", origin), newClonedAgent(t, "bob", origin)
	fromAnn := ann.runForChanges(ctx, "task-a", "echo two >>file; git commit -qam two; echo new >new")
	fromBob := bob.runForChanges(ctx, "task-b", "mkdir dir; echo b >dir/b; git add dir; git commit -qm b")

	bobRepository, annRepository := bob.client.Repository(bob.agent, remote.Source{}), ann.client.Repository(ann.agent, remote.Source{})
	onto, err := bobRepository.Branch(ctx, "")
	require.NoError(t, err)
	require.Equal(t, fleet.Branch{Name: "main", Commit: runScript(t, "git -C "+origin+" rev-parse main")}, onto)
	collected, err := bobRepository.Collect(ctx, fromBob.Commit)
	require.NoError(t, err)
	require.Equal(t, remote.CollectResult{Found: true}, collected, "the clone of the runner's own agent must have the commit")
	collected, err = bobRepository.Collect(ctx, fromAnn.Commit)
	require.NoError(t, err)
	require.False(t, collected.Found)
	require.Contains(t, collected.Have, onto.Commit)
	bob.restart()
	for range 2 {
		found, err := copyPack(ctx, annRepository, bobRepository, fromAnn.Commit, collected.Have, partialPack)
		require.NoError(t, err)
		require.True(t, found)
	}
	bob.restart()
	top := onto.Commit
	for _, c := range []fleet.Changes{fromAnn, fromBob} {
		combined, err := bobRepository.Combine(ctx, combination(c, top))
		require.NoError(t, err)
		require.Empty(t, combined.Conflicts)
		top = combined.Commit
	}

	bob.checkAcrossRestart(ctx, bobRepository, top, shared)

	require.NoError(t, bobRepository.Move(ctx, onto, top))
	require.NoError(t, bobRepository.Move(ctx, onto, top), "a repeated call must succeed")
	require.Equal(t, top, runScript(t, "git -C "+origin+" rev-parse main"))
	require.Equal(t, "bob", runScript(t, "git -C "+origin+" log -1 --format=%an main"), "the author must be the author of the work")
	combined, err := bobRepository.Combine(ctx, combination(fromAnn, onto.Commit))
	require.NoError(t, err)
	require.Equal(t, fleet.ReasonBranchMoved, fleet.ReasonOf(bobRepository.Move(ctx, onto, combined.Commit)))
	contains, err := bobRepository.Contains(ctx, top, onto.Commit)
	require.NoError(t, err)
	require.True(t, contains)
	_, err = bobRepository.Branch(ctx, "no")
	require.Equal(t, fleet.ReasonBranchNotFound, fleet.ReasonOf(err), "%v", err)

	// An agent can move a remote-tracking branch, so that the remote seems to have its work. Then only the whole pack has all objects.
	laterChanges := ann.runForChanges(ctx, "task-c", "git add -A; git commit -qm new; git update-ref refs/remotes/origin/x HEAD; echo more >>new; git commit -qam more")
	collected, err = bobRepository.Collect(ctx, laterChanges.Commit)
	require.NoError(t, err)
	require.False(t, collected.Found)
	found, err := copyPack(ctx, annRepository, bobRepository, laterChanges.Commit, collected.Have, partialPack)
	require.NoError(t, err)
	require.False(t, found)
	found, err = copyPack(ctx, annRepository, bobRepository, laterChanges.Commit, collected.Have, wholePack)
	require.NoError(t, err)
	require.True(t, found)
	pairs, err := bobRepository.Overlaps(ctx, top, []fleet.Contribution{{Name: "a", Head: laterChanges.Commit, Since: laterChanges.Base}, {Name: "b", Head: fromBob.Commit, Since: fromBob.Base}})
	require.NoError(t, err)
	require.Empty(t, pairs)

	ann.checkPush(ctx, annRepository, laterChanges.Commit, origin)
	err = annRepository.Pack(ctx, strings.Repeat("1", 40), nil, wholePack, io.Discard)
	require.Equal(t, fleet.ReasonChangesNotFound, fleet.ReasonOf(err), "%v", err)
}

// checkAcrossRestart runs a check of the commit in r, the repository of the agent's runner, and restarts the runner meanwhile. The check
// must continue, and a repeated call must not run it again. The directory shared is for the files by which the check and the test signal
// each other.
func (c clonedAgent) checkAcrossRestart(ctx context.Context, r remote.Repository, commit, shared string) {
	t := c.t
	t.Helper()
	check := fleet.Check{ID: "land1", Timeout: waittest.Limit, Command: "git status --porcelain; cat file new dir/b; git log --oneline | wc -l; echo $FLEET_COMMIT$FLEET_AGENT; " +
		"echo run >>" + shared + "/runs; until test -e " + shared + "/go; do sleep 0.05; done; exit 3"}
	type checkEnd struct {
		fleet.CheckResult
		err error
	}
	done := make(chan checkEnd, 1)
	go func() {
		res, err := r.Check(ctx, commit, check)
		done <- checkEnd{res, err}
	}()
	waittest.Until(t, "no signal reports that a check runs", func() bool { return exists(shared + "/runs") })
	c.restart()
	require.NoError(t, os.WriteFile(shared+"/go", nil, 0o600))
	res := <-done
	require.NoError(t, res.err)
	require.Equal(t, fleet.CheckFailed, res.Status, "%+v", res)
	require.Equal(t, 3, *res.ExitCode, "%+v", res)
	require.Equal(t, "one\ntwo\nnew\nb\n3\n"+commit+"\n", res.Output)
	again, err := r.Check(ctx, commit, check)
	require.NoError(t, err)
	require.Equal(t, res.CheckResult, again)
	require.Equal(t, "run", runScript(t, "cat "+shared+"/runs"))
	remaining, err := filepath.Glob(filepath.Join(c.dir, "state", "landing", "checks", "*", "*"))
	require.NoError(t, err)
	for _, path := range remaining {
		require.Contains(t, []string{"runs", "log", "active"}, filepath.Base(path), "the tree of the check must be removed")
	}
}

// checkPush pushes the commit from r, the repository of the agent's runner, to origin. A push to an unknown remote must fail.
func (c clonedAgent) checkPush(ctx context.Context, r remote.Repository, commit, origin string) {
	t := c.t
	t.Helper()
	pushed, err := r.Push(ctx, fleet.Push{Commit: commit, Branch: "ann/more"})
	require.NoError(t, err)
	require.Equal(t, fleet.PushResult{Remote: "origin", URL: origin}, pushed)
	require.Equal(t, commit, runScript(t, "git -C "+origin+" rev-parse ann/more"))
	_, err = r.Push(ctx, fleet.Push{Commit: commit, Branch: "x", Remote: "no"})
	require.Equal(t, fleet.ReasonRemoteNotFound, fleet.ReasonOf(err), "%v", err)
}

// TestBundleOfDeletedAgent unpacks the work of an agent from a bundle that Fleet fetched before the agent's workspace was
// deleted.
func TestBundleOfDeletedAgent(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), waittest.Limit)
	defer cancel()
	origin := filepath.Join(t.TempDir(), "shop.git")
	runScript(t, "git init -q --bare -b main "+origin+"; cd "+t.TempDir()+"; git init -q -b main; git -c user.name=a -c user.email=a@example.com commit -q --allow-empty -m one; git push -q "+origin+" main")
	ann, bob := newClonedAgent(t, "ann", origin), newClonedAgent(t, "bob", origin)
	c := ann.runForChanges(ctx, "task-a", "echo two >file; git add .; git commit -qm two; echo three >file")
	var bundle bytes.Buffer
	require.NoError(t, ann.client.Connect(ann.agent).Bundle(ctx, &bundle))
	ann.kill()
	bobRepository := bob.client.Repository(bob.agent, remote.Source{})
	found, err := bobRepository.Unpack(ctx, c.Commit, &bundle)
	require.NoError(t, err)
	require.True(t, found)
	for _, damaged := range []string{"", "# v2 git bundle\n", "PACK", "# v2 git bundle\n\nPACK" + strings.Repeat("x", 100)} {
		found, err = bobRepository.Unpack(ctx, strings.Repeat("1", 40), strings.NewReader(damaged))
		require.NoError(t, err, "%q", damaged)
		require.False(t, found, "%q", damaged)
	}
}

// TestNoRepository checks the errors for an agent without a repository, a repository without a remote, and a URL without a repository.
func TestNoRepository(t *testing.T) {
	w := newTestRunner(t, "-driver", "shell")
	a := fleet.Agent{UID: "agent-1", Name: "papi"}
	_, err := w.client.Repository(a, remote.Source{}).Branch(t.Context(), "")
	require.Equal(t, fleet.ReasonUnimplemented, fleet.ReasonOf(err), "%v", err)
	require.ErrorContains(t, err, "does not work in a git repository")
	runScript(t, "git init -q "+w.dir+"/work")
	_, err = w.client.Repository(a, remote.Source{}).Branch(t.Context(), "")
	require.Equal(t, fleet.ReasonRemoteNotFound, fleet.ReasonOf(err), "%v", err)
	_, err = w.client.Repository(a, remote.Source{URL: "file:///no/such/repository"}).Branch(t.Context(), "")
	require.Equal(t, fleet.ReasonProvisioningFailed, fleet.ReasonOf(err), "%v", err)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestLargeFiles lands work with files of Git LFS. Their content must be copied too, and must reach the project's repository
// before the branch moves.
func TestLargeFiles(t *testing.T) {
	if _, err := exec.LookPath("git-lfs"); err != nil {
		t.Skip("git-lfs is not installed")
	}
	ctx, cancel := context.WithTimeout(t.Context(), waittest.Limit)
	defer cancel()
	origin := filepath.Join(t.TempDir(), "shop.git")
	runScript(t, "git init -q --bare -b main "+origin+"; cd "+t.TempDir()+"; git init -q -b main; git -c user.name=a -c user.email=a@example.com commit -q --allow-empty -m one; git push -q "+origin+" main")
	ann, bob := newClonedAgent(t, "ann", "file://"+origin), newClonedAgent(t, "bob", "file://"+origin)
	bobRepository, annRepository := bob.client.Repository(bob.agent, remote.Source{}), ann.client.Repository(ann.agent, remote.Source{})
	const script = "git lfs install --local >/dev/null; git lfs track '*.bin' >/dev/null; mkdir -p NAME; echo NAME >NAME/x.bin; git add NAME .gitattributes; git commit -qm large"
	onto, err := bobRepository.Branch(ctx, "")
	require.NoError(t, err)
	top := onto.Commit
	for _, c := range []clonedAgent{ann, bob} {
		work := c.runForChanges(ctx, "task-"+c.agent.Name, strings.ReplaceAll(script, "NAME", c.agent.Name))
		collected, err := bobRepository.Collect(ctx, work.Commit)
		require.NoError(t, err)
		if c.agent.Name == "ann" {
			require.False(t, collected.Found)
			found, err := copyPack(ctx, annRepository, bobRepository, work.Commit, collected.Have, partialPack)
			require.NoError(t, err)
			require.True(t, found)
			collected, err = bobRepository.Collect(ctx, work.Commit)
			require.NoError(t, err)
			require.Len(t, collected.MissingLFS, 1)
			combined, err := bobRepository.Combine(ctx, combination(work, top))
			require.NoError(t, err)
			err = bobRepository.Move(ctx, onto, combined.Commit)
			require.ErrorContains(t, err, "the content of the Git LFS file "+collected.MissingLFS[0])
			in, out := io.Pipe()
			go func() { _ = out.CloseWithError(annRepository.WriteLFS(ctx, collected.MissingLFS[0], out)) }()
			ok, err := bobRepository.AddLFS(ctx, collected.MissingLFS[0], in)
			require.NoError(t, err)
			require.True(t, ok)
			collected, err = bobRepository.Collect(ctx, work.Commit)
			require.NoError(t, err)
			require.Empty(t, collected.MissingLFS)
		}
		require.True(t, collected.Found)
		require.Empty(t, collected.MissingLFS, "the runner must have the files of its own agent")
		combined, err := bobRepository.Combine(ctx, combination(work, top))
		require.NoError(t, err)
		require.Empty(t, combined.Conflicts)
		top = combined.Commit
	}
	require.NoError(t, bobRepository.Move(ctx, onto, top))
	runScript(t, "cd "+t.TempDir()+"; git clone -q file://"+origin+" c; cd c; git lfs install --local >/dev/null; git lfs pull; grep ann ann/x.bin; grep bob bob/x.bin")
	err = annRepository.WriteLFS(ctx, strings.Repeat("1", 64), io.Discard)
	require.Equal(t, fleet.ReasonChangesNotFound, fleet.ReasonOf(err), "%v", err)
}
