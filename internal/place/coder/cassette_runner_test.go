package coder_test

import (
	"crypto/ed25519"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/place/coder"
)

// shellAgent returns a running agent in a workspace with a fleet-runner. Its tasks are shell scripts.
func (x *recordedPlace) shellAgent(suffix string) fleet.Agent {
	return x.readyAgentIn("Runner", suffix)
}

// newScriptRun returns a run of a shell script. It has a time limit, which runners require, and a start time before that of
// any recording.
func newScriptRun(id, text string) fleet.Run {
	return fleet.Run{TaskID: "task-" + id, Prompt: text, Timeout: time.Hour, StartedAt: time.Unix(1, 0)}
}

// runToEnd dispatches the run and follows it to its end.
func (x *recordedPlace) runToEnd(a fleet.Agent, r fleet.Run) (string, fleet.Outcome) {
	x.NoError(x.place.Connect(a).Dispatch(x.ctx, r))
	return x.follow(a, r)
}

// testRunnerCreate creates an agent whose workspace gets Fleet's public key, and runs a task in it.
func testRunnerCreate(x *recordedPlace) {
	a := x.agentOf("Runner", "made")
	w := x.provision(a)
	a.WorkspaceID = w.ID
	w = x.await(a, fleet.StateRunning)
	x.Equal(a.Spec, w.Metadata["fleet_mcp_agent_spec"])
	_, o := x.runToEnd(a, newScriptRun("first", "echo hello"))
	x.Equal("hello", o.Summary)
	x.delete(a)
}

func testRunnerCompletes(x *recordedPlace) {
	a := x.shellAgent("shell")
	r := newScriptRun("exact", "cat <<'END'\n"+wideText+"END")
	x.NoError(x.place.Connect(a).Dispatch(x.ctx, r))
	r.Again = true
	x.NoError(x.place.Connect(a).Dispatch(x.ctx, r), "a repeated dispatch must not start another run")
	text, o := x.follow(a, r)
	x.Equal(wideText, text)
	x.Equal(fleet.TaskCompleted, o.Status)
	x.Equal(wideText, string(o.Payload))
	x.Zero(*o.ExitCode)
	x.False(o.EndedAt.IsZero())
	again, same := x.follow(a, r)
	x.Equal(text, again)
	x.Equal(o, same)
}

func testRunnerFails(x *recordedPlace) {
	a := x.shellAgent("bad")
	_, o := x.runToEnd(a, newScriptRun("fails", "echo no compiler >&2; exit 3"))
	x.Equal(fleet.TaskFailed, o.Status)
	x.Equal(3, *o.ExitCode)
	x.Equal("exit code 3: no compiler", o.Reason)
}

// testRunnerWorks follows a run that takes longer than a stream, so that Follow needs several streams.
func testRunnerWorks(x *recordedPlace) {
	a := x.shellAgent("long")
	text, o := x.runToEnd(a, newScriptRun("works", "for i in $(seq 6); do echo step $i; sleep 0.5; done"))
	x.Equal("step 1\nstep 2\nstep 3\nstep 4\nstep 5\nstep 6\n", text)
	x.Equal(fleet.TaskCompleted, o.Status)
}

func testRunnerMessage(x *recordedPlace) {
	a := x.shellAgent("hears")
	r := newScriptRun("listens", `for i in 1 2; do read -r m <"$FLEET_MESSAGES"; printf '%s\n' "$m"; done`)
	x.NoError(x.place.Connect(a).Dispatch(x.ctx, r))
	x.NoError(x.place.Connect(a).Send(x.ctx, r, "m1", "raw \x1b[A text > \"quoted\""))
	x.NoError(x.place.Connect(a).Send(x.ctx, r, "m1", "raw \x1b[A text > \"quoted\""), "a message with a repeated id must succeed, and must not be delivered twice")
	x.NoError(x.place.Connect(a).Send(x.ctx, r, "m2", "the end"))
	_, o := x.follow(a, r)
	x.Equal("raw \x1b[A text > \"quoted\"\nthe end\n", string(o.Payload))
	x.requireReason(x.place.Connect(a).Send(x.ctx, r, "m3", "too late"), fleet.ReasonNoRunningTask)
}

func testRunnerInterrupt(x *recordedPlace) {
	a := x.shellAgent("stopped")
	r := newScriptRun("sleeps", "echo at work; sleep 3600")
	x.NoError(x.place.Connect(a).Interrupt(x.ctx, r, false), "an interrupt of a run that was never dispatched must succeed")
	x.NoError(x.place.Connect(a).Dispatch(x.ctx, r))
	x.NoError(x.place.Connect(a).Interrupt(x.ctx, r, true))
	_, o := x.follow(a, r)
	x.Equal(fleet.TaskStopped, o.Status)
	x.NoError(x.place.Connect(a).Interrupt(x.ctx, r, true), "an interrupt of a run that has ended must succeed")
	_, o = x.runToEnd(a, newScriptRun("next", "echo still here"))
	x.Equal("still here", o.Summary)
}

func testRunnerBusy(x *recordedPlace) {
	a := x.shellAgent("one")
	r := newScriptRun("first", "sleep 3600")
	x.NoError(x.place.Connect(a).Dispatch(x.ctx, r))
	err := x.place.Connect(a).Dispatch(x.ctx, newScriptRun("second", "echo me too"))
	x.Equal(r.TaskID, x.requireReason(err, fleet.ReasonAgentBusy).Metadata["task_id"])
}

func testRunnerNeverDispatched(x *recordedPlace) {
	a := x.shellAgent("none")
	_, err := x.place.Connect(a).Follow(x.ctx, newScriptRun("never", ""), "", func(fleet.Output) error { return nil })
	x.requireReason(err, fleet.ReasonTaskNotFound)
}

// testRunnerChanges reads the changes of a run, and runs a check.
func testRunnerChanges(x *recordedPlace) {
	a := x.shellAgent("git")
	r := newScriptRun("changes", "echo one line >made")
	_, o := x.runToEnd(a, r)
	x.Equal(fleet.TaskCompleted, o.Status)
	c, err := x.place.Connect(a).Changes(x.ctx, r)
	x.NoError(err)
	x.Equal(1, c.FileCount)
	x.Equal("made", c.FileChanges[0].Path)
	patch, more, err := x.place.Connect(a).Patch(x.ctx, *c, "made", 0, 1<<10)
	x.NoError(err)
	x.False(more)
	x.Contains(string(patch), "+one line")
	res, err := x.place.Connect(a).Check(x.ctx, r, fleet.Check{ID: "1", Command: "grep 'one line' made", Timeout: time.Minute})
	x.NoError(err)
	x.Equal(fleet.CheckPassed, res.Status)
}

// testRunnerLands lands the work of an agent in the branch of the repository from which its clone comes.
func testRunnerLands(x *recordedPlace) {
	a := x.shellAgent("lands")
	r := newScriptRun("lands", "echo one line >made")
	_, o := x.runToEnd(a, r)
	x.Equal(fleet.TaskCompleted, o.Status)
	c, err := x.place.Connect(a).Changes(x.ctx, r)
	x.NoError(err)
	_, err = x.place.Projects(x.ctx) // the clock of a replay may have jumped since the place listed the projects
	x.NoError(err)
	repo, err := x.place.Repository("Runner")
	x.NoError(err)
	onto, err := repo.Branch(x.ctx, "")
	x.NoError(err)
	x.NoError(repo.Collect(x.ctx, a, *c))
	combined, err := repo.Combine(x.ctx, fleet.Combination{
		Contribution: fleet.Contribution{Name: r.TaskID, Head: c.Commit, Since: c.Base}, Onto: onto.Commit, Strategy: fleet.Squash, Message: "Land it",
		Author: fleet.Person{Name: a.Name}, Committer: fleet.Person{Name: "alice"}, At: time.Unix(1795852800, 0),
	})
	x.NoError(err)
	x.Empty(combined.Conflicts)
	res, err := repo.Check(x.ctx, combined.Commit, fleet.Check{ID: "land1", Command: "sleep 2; grep 'one line' made", Timeout: time.Minute})
	x.NoError(err)
	x.Equal(fleet.CheckPassed, res.Status, "%+v", res)
	x.NoError(repo.Move(x.ctx, onto, combined.Commit))
	moved, err := repo.Branch(x.ctx, onto.Name)
	x.NoError(err)
	x.Equal(combined.Commit, moved.Commit)
}

// testRunnerCrashed kills the runner during a run. The next runner continues the run, and requires a new handshake.
func testRunnerCrashed(x *recordedPlace) {
	a := x.shellAgent("crash")
	r := newScriptRun("survives", "echo before; sleep 5; echo after")
	x.NoError(x.place.Connect(a).Dispatch(x.ctx, r))
	x.ifRecording(func() {
		home, err := filepath.EvalSymlinks(filepath.Join(os.Getenv("TESTBED_DIR"), "ws/by-name/bob/agent-"+a.Name))
		x.NoError(err)
		out, err := exec.CommandContext(x.ctx, "bash", "-c", `for p in $(grep -lszF "HOME=$0" /proc/[0-9]*/environ | cut -d/ -f3); do
			[ "$(tr '\0' ' ' </proc/$p/cmdline | cut -d' ' -f2)" = serve ] && kill -KILL $p; done; sleep 2`, home).CombinedOutput()
		x.NoError(err, "%s", out)
	})
	text, o := x.follow(a, r)
	x.Equal("before\nafter\n", text)
	x.Equal(fleet.TaskCompleted, o.Status)
}

func testRunnerStopped(x *recordedPlace) {
	a := x.shellAgent("halt")
	r := newScriptRun("ends", "sleep 3600")
	x.NoError(x.place.Connect(a).Dispatch(x.ctx, r))
	x.ifRecording(func() {
		x.NoError(x.live.Stop(x.ctx, a))
		x.awaitLive(a, fleet.StateStopped)
	})
	_, err := x.place.Connect(a).Changes(x.ctx, r)
	x.requireReason(err, fleet.ReasonAgentOffline)
	x.Equal("stopped", x.requireReason(x.place.Connect(a).Dispatch(x.ctx, r), fleet.ReasonAgentOffline).Metadata["state"])
	_, o := x.follow(a, r)
	x.Equal(fleet.TaskFailed, o.Status)
	x.Equal("its workspace was stopped", o.Reason)
}

// testRunnerOtherKey signs requests with a key that the runner does not know. The runner must refuse them.
func testRunnerOtherKey(x *recordedPlace) {
	a := x.shellAgent("safe")
	config := x.config
	config.RunnerKey = ed25519.NewKeyFromSeed([]byte(strings.Repeat("x", ed25519.SeedSize)))
	other, err := coder.New(config)
	x.NoError(err)
	other.SetStreamLimit(recordedStreamLimit)
	defer func() { x.NoError(other.Close()) }()
	x.requireReason(other.Connect(a).Dispatch(x.ctx, newScriptRun("theirs", "echo mine now")), fleet.ReasonUnauthenticated)
}
