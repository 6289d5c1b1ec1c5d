package local

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/runner/sandbox"
	"fleet/internal/waittest"
)

// The tests TestCrashIn… create the state that a killed server leaves in the middle of a call, and check that the next call
// completes the work.

// newCrashPlace returns a place and an agent of its project "shell". At the end of the test, the agent is deleted.
func newCrashPlace(t *testing.T) (*Place, fleet.Agent, context.Context) {
	t.Helper()
	exe, err := sandbox.Executable()
	require.NoError(t, err)
	p, err := New(Config{
		Dir: t.TempDir(), Program: exe, PassEnv: []string{"GORACE"},
		Projects: Discover(func(string) (string, error) { return "", exec.ErrNotFound }),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), waittest.Limit)
	a := fleet.Agent{UID: "crashed", Name: "papi", Project: "shell", Role: "coder"}
	_, err = p.Provision(ctx, a)
	require.NoError(t, err)
	t.Cleanup(func() {
		defer cancel()
		_, err := p.Delete(ctx, a)
		require.NoError(t, err)
		require.NoError(t, p.Close())
	})
	return p, a, ctx
}

// requireState requires that Inspect returns the state, and returns the workspace.
func requireState(t *testing.T, p *Place, a fleet.Agent, want fleet.State) fleet.Workspace {
	t.Helper()
	w, err := p.Inspect(t.Context(), a)
	require.NoError(t, err)
	require.Equal(t, want, w.State)
	return w
}

func TestCrashInProvision(t *testing.T) {
	t.Parallel()
	p, a, ctx := newCrashPlace(t)
	h := p.home(a.UID)
	r, err := h.record()
	require.NoError(t, err)
	r.Ready = false
	require.NoError(t, h.writeRecord(r))
	requireState(t, p, a, fleet.StatePending)
	require.Equal(t, fleet.ReasonAgentOffline, fleet.ReasonOf(p.Connect(a).Dispatch(ctx, fleet.Run{TaskID: "x", Timeout: time.Minute})))

	require.NoError(t, os.Remove(h.join("agent.json")))
	requireState(t, p, a, fleet.StatePending)
	w, err := p.Provision(ctx, a)
	require.NoError(t, err)
	require.Equal(t, fleet.StateRunning, w.State)

	require.NoError(t, os.RemoveAll(h.workDir()))
	require.Contains(t, requireState(t, p, a, fleet.StateUnhealthy).Reason, "does not exist")
	require.NoError(t, p.Start(ctx, a))
	requireState(t, p, a, fleet.StateRunning)

	require.NoError(t, os.WriteFile(h.join("agent.json"), []byte("{"), 0o600))
	all, err := p.List(ctx)
	require.NoError(t, err)
	require.Equal(t, fleet.StateUnhealthy, all[0].State)
}

func TestCrashInDelete(t *testing.T) {
	t.Parallel()
	p, a, ctx := newCrashPlace(t)
	h := p.home(a.UID)
	r, err := h.record()
	require.NoError(t, err)
	r.KeptOutside = "the commits are kept"
	require.NoError(t, h.writeRecord(r))
	require.NoError(t, os.Rename(string(h), filepath.Join(filepath.Dir(string(h)), ".deleted-"+a.UID)))
	all, err := p.List(ctx)
	require.NoError(t, err)
	require.Empty(t, all)
	kept, err := p.Delete(ctx, a)
	require.NoError(t, err)
	require.Equal(t, "the commits are kept", kept)
	left, err := os.ReadDir(filepath.Dir(string(h)))
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestCrashInTidy checks that the remains of a kept home are removed after its removal was interrupted.
func TestCrashInTidy(t *testing.T) {
	t.Parallel()
	p, _, ctx := newCrashPlace(t)
	trash := filepath.Join(p.config.Dir, "kept", removedPrefix+"other")
	require.NoError(t, os.MkdirAll(filepath.Join(trash, "work"), 0o700))
	require.NoError(t, p.Tidy(ctx, time.Now()))
	require.NoDirExists(t, trash)
}

// TestReadOnlyWork checks that the kept home of an agent is removed although the agent has left read-only directories, like those of
// Go's module cache.
func TestReadOnlyWork(t *testing.T) {
	t.Parallel()
	p, a, ctx := newCrashPlace(t)
	dir := filepath.Join(p.home(a.UID).workDir(), "cache")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sub", "file"), nil, 0o400))
	require.NoError(t, os.Chmod(filepath.Join(dir, "sub"), 0o500))
	require.NoError(t, os.Chmod(dir, 0o500))
	_, err := p.Delete(ctx, a)
	require.NoError(t, err)
	require.DirExists(t, string(p.keptHome(a.UID)))
	require.NoError(t, p.Tidy(ctx, time.Now().Add(p.config.KeptRetention+time.Hour)))
	require.NoDirExists(t, string(p.keptHome(a.UID)))
}

// TestCrashInRestore interrupts the restoring of a kept home. The home and the description of its work must stay complete, and the
// next call must complete the restoring.
func TestCrashInRestore(t *testing.T) {
	t.Parallel()
	p, a, ctx := newCrashPlace(t)
	h, k := p.home(a.UID), p.keptHome(a.UID)
	require.NoError(t, os.Mkdir(h.join("work", "repo"), 0o700))
	for _, name := range []string{"work/file", "work/repo/HEAD"} {
		require.NoError(t, os.WriteFile(h.join(name), []byte("work"), 0o600))
	}
	requireIntact := func() {
		t.Helper()
		for _, name := range []string{"work/file", "work/repo/HEAD"} {
			text, err := os.ReadFile(h.join(name))
			require.NoError(t, err)
			require.Equal(t, "work", string(text))
		}
		requireState(t, p, a, fleet.StateRunning)
	}
	deleteAgent := func() {
		t.Helper()
		kept, err := p.Delete(ctx, a)
		require.NoError(t, err)
		require.Contains(t, kept, "files in its directory (2)")
	}
	deleteAgent()

	require.NoError(t, os.WriteFile(string(h), nil, 0o600)) // prevents the home from being moved
	require.Error(t, p.Start(ctx, a))
	all, err := p.KeptWork(ctx, a.UID)
	require.NoError(t, err)
	require.Equal(t, "files in its directory (2)", all[0].Reason)
	require.NoError(t, os.Remove(string(h)))
	require.NoError(t, p.Start(ctx, a))
	requireIntact()

	for name, repeat := range map[string]func() error{
		"start":     func() error { return p.Start(ctx, a) },
		"provision": func() error { _, err := p.Provision(ctx, a); return err },
		"delete":    func() error { deleteAgent(); return p.Start(ctx, a) },
	} {
		deleteAgent()
		require.NoError(t, os.Rename(string(k), string(h)), name) // as if the server was killed after this
		requireState(t, p, a, fleet.StateDeleting)
		require.NoError(t, repeat(), name)
		requireIntact()
	}
}
