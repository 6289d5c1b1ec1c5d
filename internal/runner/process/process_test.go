package process

import (
	"bufio"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// startSleeper starts a process with the environment. It runs until the test ends.
func startSleeper(t *testing.T, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("bash", "-c", "echo ready; exec cat")
	cmd.Env = append(os.Environ(), env...)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return cmd
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	cmd := startSleeper(t)
	id, err := Of(cmd.Process.Pid)
	require.NoError(t, err)
	require.True(t, id.Alive())

	recycled := id
	recycled.Start += "0"
	require.False(t, recycled.Alive(), "a process with another start time must not count")
	require.ErrorIs(t, recycled.Signal(syscall.SIGKILL), os.ErrProcessDone)
	require.True(t, id.Alive(), "another process must not get the signal")

	rebooted := id
	rebooted.Boot += "x"
	require.False(t, rebooted.Alive())

	require.NoError(t, id.Signal(syscall.SIGKILL))
	_ = cmd.Wait()
	require.False(t, id.Alive())
	require.ErrorIs(t, id.Signal(syscall.SIGKILL), os.ErrProcessDone)
	_, err = Of(id.PID)
	require.ErrorIs(t, err, os.ErrProcessDone)
}

func TestDescendantsAndMembers(t *testing.T) {
	t.Parallel()
	cmd := startSleeper(t)
	descendants, err := Descendants(os.Getpid())
	require.NoError(t, err)
	require.Contains(t, pidsOf(descendants), cmd.Process.Pid)

	self, err := Self()
	require.NoError(t, err)
	require.True(t, self.Alive())
	members, err := Members(syscall.Getpgrp())
	require.NoError(t, err)
	require.Contains(t, pidsOf(members), self.PID)
}

func TestKillMarked(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux shows environments of processes")
	}
	otherCmd, cmd := startSleeper(t, "FLEET_MARK=other"), startSleeper(t, "FLEET_MARK=this one")
	require.Zero(t, KillMarked("FLEET_MARK=this one"))
	requireKilled(t, cmd)
	requireAlive(t, otherCmd)
}

func requireKilled(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal())
}

func requireAlive(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	id, err := Of(cmd.Process.Pid)
	require.NoError(t, err)
	require.True(t, id.Alive())
}

// TestInvalidMark checks isValidMark. Without it, KillMarked with an empty variable would kill every other process.
func TestInvalidMark(t *testing.T) {
	t.Parallel()
	for _, variable := range []string{"", "FLEET_RUN_DIR=", "FLEET_RUN_DIR=/", "=value", "value"} {
		require.False(t, isValidMark(variable), variable)
	}
	require.True(t, isValidMark("FLEET_RUN_DIR=/runs/"))
}

func pidsOf(entries []Entry) []int {
	ids := make([]int, 0, len(entries))
	for _, e := range entries {
		ids = append(ids, e.PID)
	}
	return ids
}
