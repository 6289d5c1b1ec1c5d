package shim

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/runner/process"
)

func newRun(t *testing.T) Run {
	t.Helper()
	run := Run(t.TempDir())
	b, err := json.Marshal(Spec{Mark: "FLEET_RUN_DIR=" + string(run), SecretFiles: []string{"secret"}, Log: run.Path("log"), Name: "task-1"})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(run.Path("run.json"), b, 0o600))
	require.NoError(t, os.WriteFile(run.Path("secret"), nil, 0o600))
	require.NoError(t, os.WriteFile(run.Path("log"), nil, 0o600))
	return run
}

// TestClaim claims a run concurrently. Exactly one caller must succeed, and the claim must name that caller.
func TestClaim(t *testing.T) {
	t.Parallel()
	run := newRun(t)
	c, err := run.Claim()
	require.NoError(t, err)
	require.Nil(t, c)
	var wg sync.WaitGroup
	var mu sync.Mutex
	winners := []int{}
	for i := range 20 {
		wg.Go(func() {
			if writeOnce(run.Path("claim"), Claim{Shim: process.ID{PID: i}}) == nil {
				mu.Lock()
				defer mu.Unlock()
				winners = append(winners, i)
			}
		})
	}
	wg.Wait()
	require.Len(t, winners, 1)
	c, err = run.Claim()
	require.NoError(t, err)
	require.Equal(t, winners[0], c.Shim.PID)
	void, err := run.Void()
	require.NoError(t, err)
	require.False(t, void, "a claimed run must not become void")
	tempFiles, err := filepath.Glob(run.Path(".claim*"))
	require.NoError(t, err)
	require.Empty(t, tempFiles)
}

func TestVoid(t *testing.T) {
	t.Parallel()
	run := newRun(t)
	for range 2 {
		void, err := run.Void()
		require.NoError(t, err)
		require.True(t, void)
	}
	require.ErrorIs(t, writeOnce(run.Path("claim"), Claim{}), os.ErrExist)
	_, err := run.Settle()
	require.Error(t, err)
}

func TestSettle(t *testing.T) {
	t.Parallel()
	self, err := process.Self()
	require.NoError(t, err)

	run := newRun(t)
	require.NoError(t, writeOnce(run.Path("claim"), Claim{Shim: self}))
	e, err := run.Settle()
	require.NoError(t, err)
	require.Nil(t, e, "an active run must have no end")
	require.NoError(t, writeOnce(run.Path("exit.json"), Exit{End: Exited, Code: 3}))
	e, err = run.Settle()
	require.NoError(t, err)
	require.Equal(t, 3, e.Code)

	for reason, shim := range map[string]process.ID{
		"the process that supervised the run was killed": {PID: self.PID, Start: "0", Boot: self.Boot}, // another process has the pid now
		"the machine was restarted during the run":       {PID: self.PID, Start: self.Start, Boot: "another"},
	} {
		run := newRun(t)
		require.NoError(t, writeOnce(run.Path("claim"), Claim{Shim: shim}))
		require.NoError(t, writeOnce(run.Path("child"), process.ID{PID: self.PID, Start: "0", Boot: self.Boot})) // must not be killed
		e, err := run.Settle()
		require.NoError(t, err)
		require.Equal(t, Lost, e.End)
		require.Contains(t, e.Reason, reason)
		require.False(t, e.StartedAt.IsZero())
		require.NoFileExists(t, run.Path("secret"))
		log, err := os.ReadFile(run.Path("log"))
		require.NoError(t, err)
		require.Contains(t, string(log), "run task-1 ended: lost")
		secondExit, err := run.Settle()
		require.NoError(t, err)
		require.Equal(t, e, secondExit)
		endExit, err := run.End(t.Context(), time.Second, "")
		require.NoError(t, err)
		require.Equal(t, e, endExit)
	}
}
