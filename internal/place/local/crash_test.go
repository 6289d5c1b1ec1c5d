package local

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/runner/shim"
)

// These tests leave a call at a point where a server could be killed in it, and look at what the next one makes of it.

func crashed(t *testing.T) (*Place, fleet.Agent, context.Context) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	b, err := New(Config{
		Dir: t.TempDir(), ShimCommand: []string{exe, "shim"}, PassEnv: []string{"GORACE"},
		Projects: Discover(func(string) (string, error) { return "", exec.ErrNotFound }),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	a := fleet.Agent{UID: "crashed", Name: "papi", Project: "shell", Role: "coder"}
	_, err = b.Provision(ctx, a)
	require.NoError(t, err)
	t.Cleanup(func() {
		defer cancel()
		_, err := b.Delete(ctx, a)
		require.NoError(t, err)
		require.NoError(t, b.Close())
	})
	return b, a, ctx
}

func follow(ctx context.Context, b *Place, a fleet.Agent, r fleet.Run) (fleet.Outcome, error) {
	return b.Connect(a).Follow(ctx, r, "", func(fleet.Output) error { return nil })
}

func times(t *testing.T, b *Place, a fleet.Agent) string {
	t.Helper()
	out, err := os.ReadFile(filepath.Join(b.home(a.UID).work(), "times"))
	require.NoError(t, err)
	return string(out)
}

func TestCrashBeforeTheShim(t *testing.T) {
	t.Parallel()
	b, a, ctx := crashed(t)
	h := b.home(a.UID)
	p, err := b.project("shell")
	require.NoError(t, err)
	r := fleet.Run{TaskID: "task-1", Prompt: "echo once >>times", Timeout: time.Minute}

	for _, next := range []func() error{
		func() error {
			return b.Connect(a).Dispatch(ctx, fleet.Run{TaskID: "task-0", Prompt: "true", Timeout: time.Minute})
		}, // the agent is not busy
		func() error { _, err := follow(ctx, b, a, r); return err },
		func() error { return b.Connect(a).Interrupt(ctx, r, true) },
	} {
		env, err := b.prepare(p, a, r, h)
		require.NoError(t, err)
		if err := next(); err != nil {
			require.Equal(t, fleet.ReasonTaskNotFound, fleet.ReasonOf(err), "%v", err)
		}
		_, err = follow(ctx, b, a, r)
		require.Equal(t, fleet.ReasonTaskNotFound, fleet.ReasonOf(err), "certainly never given")

		// And never will be: a shim that comes late finds nothing to do.
		if _, err := os.Stat(string(h.run(r.TaskID))); err == nil {
			hands, err := b.spawn(h.run(r.TaskID), env)
			require.NoError(t, err)
			require.False(t, handshake(t, hands).Started)
		}
	}
	require.NoError(t, b.Connect(a).Dispatch(ctx, r))
	o, err := follow(ctx, b, a, r)
	require.NoError(t, err)
	require.Equal(t, fleet.TaskCompleted, o.Status)
	require.Equal(t, "once\n", times(t, b, a))
}

func handshake(t *testing.T, hands *os.File) (h shim.Handshake) {
	t.Helper()
	_ = json.NewDecoder(hands).Decode(&h)
	require.NoError(t, hands.Close())
	return h
}

// TestCrashBehindTheShim gives the run again while the shim of the first try is about to start, earlier and later.
func TestCrashBehindTheShim(t *testing.T) {
	t.Parallel()
	b, a, ctx := crashed(t)
	h := b.home(a.UID)
	p, err := b.project("shell")
	require.NoError(t, err)
	given := 0
	for i := range 24 {
		r := fleet.Run{TaskID: "task-" + string(rune('a'+i)), Prompt: "echo $FLEET_TASK_ID >>times", Timeout: time.Minute}
		env, err := b.prepare(p, a, r, h)
		require.NoError(t, err)
		late, err := b.spawn(h.run(r.TaskID), env)
		require.NoError(t, err)
		<-time.After(time.Duration(i) * time.Millisecond) // no signal is wanted: any moment must do
		require.NoError(t, b.Connect(a).Dispatch(ctx, r))
		o, err := follow(ctx, b, a, r)
		require.NoError(t, err)
		require.Equal(t, fleet.TaskCompleted, o.Status, "%+v", o)
		if handshake(t, late).Started {
			given++
		}
	}
	require.Len(t, strings.Fields(times(t, b, a)), 24, "each run once; %d by the first shim", given)
}

// TestTwoShims starts several shims on one run: one of them runs it.
func TestTwoShims(t *testing.T) {
	t.Parallel()
	b, a, ctx := crashed(t)
	h := b.home(a.UID)
	p, err := b.project("shell")
	require.NoError(t, err)
	r := fleet.Run{TaskID: "task-1", Prompt: "echo once >>times", Timeout: time.Minute}
	env, err := b.prepare(p, a, r, h)
	require.NoError(t, err)
	var all []*os.File
	for range 5 {
		hands, err := b.spawn(h.run(r.TaskID), env)
		require.NoError(t, err)
		all = append(all, hands)
	}
	started, taken := 0, 0
	for _, hands := range all {
		switch s := handshake(t, hands); {
		case s.Started:
			started++
		case s.Taken:
			taken++
		}
	}
	require.Equal(t, 1, started)
	require.Equal(t, 4, taken)
	_, err = follow(ctx, b, a, r)
	require.NoError(t, err)
	require.Equal(t, "once\n", times(t, b, a))
}

func TestCrashInProvision(t *testing.T) {
	t.Parallel()
	b, a, ctx := crashed(t)
	h := b.home(a.UID)
	r, err := h.record()
	require.NoError(t, err)
	r.Ready = false
	require.NoError(t, h.write(r))
	w, err := b.Inspect(ctx, a)
	require.NoError(t, err)
	require.Equal(t, fleet.StatePending, w.State)
	require.Equal(t, fleet.ReasonAgentOffline, fleet.ReasonOf(b.Connect(a).Dispatch(ctx, fleet.Run{TaskID: "x", Timeout: time.Minute})))

	require.NoError(t, os.Remove(h.path("agent.json")))
	w, err = b.Inspect(ctx, a)
	require.NoError(t, err)
	require.Equal(t, fleet.StatePending, w.State)
	w, err = b.Provision(ctx, a)
	require.NoError(t, err)
	require.Equal(t, fleet.StateRunning, w.State)

	require.NoError(t, os.RemoveAll(h.work()))
	w, err = b.Inspect(ctx, a)
	require.NoError(t, err)
	require.Equal(t, fleet.StateUnhealthy, w.State)
	require.Contains(t, w.Reason, "is gone")
	require.NoError(t, b.Start(ctx, a))
	w, err = b.Inspect(ctx, a)
	require.NoError(t, err)
	require.Equal(t, fleet.StateRunning, w.State)

	require.NoError(t, os.WriteFile(h.path("agent.json"), []byte("{"), 0o600))
	all, err := b.List(ctx)
	require.NoError(t, err)
	require.Equal(t, fleet.StateUnhealthy, all[0].State)
}

func TestCrashInDelete(t *testing.T) {
	t.Parallel()
	b, a, ctx := crashed(t)
	h := b.home(a.UID)
	r, err := h.record()
	require.NoError(t, err)
	r.Kept = "the commits are kept"
	require.NoError(t, h.write(r))
	require.NoError(t, os.Rename(string(h), filepath.Join(filepath.Dir(string(h)), ".deleted-"+a.UID)))
	all, err := b.List(ctx)
	require.NoError(t, err)
	require.Empty(t, all)
	kept, err := b.Delete(ctx, a)
	require.NoError(t, err)
	require.Equal(t, "the commits are kept", kept)
	left, err := os.ReadDir(filepath.Dir(string(h)))
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestReadOnlyWork deletes an agent that has left directories nobody may write to, as caches of modules are.
func TestReadOnlyWork(t *testing.T) {
	t.Parallel()
	b, a, ctx := crashed(t)
	dir := filepath.Join(b.home(a.UID).work(), "cache")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sub", "file"), nil, 0o400))
	require.NoError(t, os.Chmod(filepath.Join(dir, "sub"), 0o500))
	require.NoError(t, os.Chmod(dir, 0o500))
	_, err := b.Delete(ctx, a)
	require.NoError(t, err)
}
