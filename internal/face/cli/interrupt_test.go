package cli

import (
	"context"
	"os"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
)

func TestInterruptEndsACall(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	called := make(chan struct{})
	s.beforeUnary = func(ctx context.Context, _ string, _ any) error {
		close(called)
		<-ctx.Done()
		return ctx.Err()
	}
	server, _ := s.listen(t, "")
	c := newCommand(server)
	code := c.start("agent", "list")
	<-called
	c.signals <- nil
	require.Equal(t, ExitInterrupted, waitForExit(t, code))
	require.Equal(t, "fleet: interrupted; the server may still carry out the request\n", c.stderr.String())
}

// TestInterruptEndsAnOutage checks the exit codes of commands that Ctrl-C or --timeout ends while the server cannot be reached.
func TestInterruptEndsAnOutage(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	s.beforeUnary = func(context.Context, string, any) error {
		return status.Error(codes.Unavailable, "the connection broke")
	}
	server, _ := s.listen(t, "")
	c := newCommand(server)
	code := c.start("agent", "list")
	c.stderr.await(t, "trying to reach it again")
	c.signals <- os.Interrupt
	require.Equal(t, ExitInterrupted, waitForExit(t, code), c.stderr.String())

	_, line, timeoutCode := runFleet(server, "agent", "list", "--timeout", "300ms")
	require.Equal(t, ExitTimeout, timeoutCode, line)
}

func TestInterruptedWatchPrintsTheCursor(t *testing.T) {
	t.Parallel()
	_, server, _ := stubWithAgent(t)
	c := newCommand(server)
	code := c.start("watch", "--agent", "papi", "--follow")
	c.stdout.await(t, "agent_changed")
	c.signals <- nil
	require.Equal(t, ExitInterrupted, waitForExit(t, code))
	require.Equal(t, "Continue from here: fleet watch --cursor 2 --agent papi\n", c.stderr.String())
}

func TestInterruptEndsFollowingOnly(t *testing.T) {
	t.Parallel()
	s, server, _ := stubWithAgent(t)
	gate, open := newGate(t)
	c := newCommand(server)
	code := c.start("task", "run", "papi", "echo one; read x < "+gate, "-f")
	c.stdout.await(t, "one\n")
	c.signals <- os.Interrupt
	require.Equal(t, ExitInterrupted, waitForExit(t, code))
	require.Contains(t, c.stderr.String(), "fleet: no longer following; the task task-1 goes on; follow it: fleet watch --task task-1 --follow, or stop it: fleet task stop papi\n")
	require.Equal(t, fleetv1.Task_running, s.tasks[0].GetStatus())
	open()
	_, _, waitCode := runFleet(server, "task", "wait", "task-1")
	require.Equal(t, ExitOK, waitCode)
}

func TestStopOnInterrupt(t *testing.T) {
	t.Parallel()
	_, server, _ := stubWithAgent(t)
	gate, _ := newGate(t)
	c := newCommand(server)
	code := c.start("task", "run", "papi", "echo one; read x < "+gate, "-f", "--stop-on-interrupt", "-o", "json", "-v")
	c.stderr.await(t, "one\n")
	c.signals <- os.Interrupt
	require.Equal(t, ExitStopped, waitForExit(t, code))
	require.Contains(t, c.stdout.String(), `"status": "stopped"`)
	require.Contains(t, c.stderr.String(), `"error": "TASK_STOPPED"`)
}

// lateStopper is a server that answers StopTask before the task has ended.
type lateStopper struct{ fleetv1.FleetServiceClient }

func (lateStopper) StopTask(context.Context, *fleetv1.StopTaskRequest, ...grpc.CallOption) (*fleetv1.StopTaskResponse, error) {
	return &fleetv1.StopTaskResponse{Task: &fleetv1.Task{Status: fleetv1.Task_running}}, nil
}

// TestInterruptEndsTheWaitForAStop checks that, with --stop-on-interrupt, a second Ctrl-C ends the command if the task still runs after the
// server has answered the request to stop it.
func TestInterruptEndsTheWaitForAStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &monitor{s: &session{program: &program{quiet: true}, fleet: lateStopper{}}, task: &fleetv1.Task{Id: "task-1"}}
		ctx, giveUp := context.WithCancelCause(t.Context())
		defer giveUp(nil)
		presses, result := make(chan struct{}, 2), make(chan error, 1)
		go func() { result <- m.stopWhenPressed(ctx, presses, make(chan struct{}), giveUp) }()
		presses <- struct{}{}
		synctest.Wait() // the server has answered
		presses <- struct{}{}
		require.ErrorIs(t, <-result, errInterrupted)
		require.ErrorIs(t, context.Cause(ctx), errInterrupted)
	})
}

func TestCtrlCTwiceStopsTheTask(t *testing.T) {
	t.Parallel()
	s, server, _ := stubWithAgent(t)
	gate, _ := newGate(t)
	screen, keys, wait := runOnTerminal(t, server, "1m", "task", "run", "papi", "echo one; read x < "+gate, "-f")
	screen.await(t, "one\r\n")
	screen.await(t, spinnerFrames[0]+" papi ") // the progress line
	typeKeys(t, keys, "\x03")
	screen.await(t, "Ctrl-C again within 1m00s stops the task too.")
	typeKeys(t, keys, "\x03")
	screen.await(t, "Stopping the task ...")
	require.Equal(t, ExitStopped, wait(), screen.String())
	require.Contains(t, screen.String(), "fleet: the task task-1 of papi was stopped")
	require.Equal(t, fleetv1.Task_stopped, s.tasks[0].GetStatus())
}

// TestCtrlCTwiceReportsATaskThatDoesNotEnd checks that the command does not exit with 0 if the task still runs after its stop.
func TestCtrlCTwiceReportsATaskThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	s, server, _ := stubWithAgent(t)
	s.ignoresStop = true
	gate, _ := newGate(t)
	screen, keys, wait := runOnTerminal(t, server, "1m", "task", "run", "papi", "echo one; read x < "+gate, "-f")
	screen.await(t, "one\r\n")
	typeKeys(t, keys, "\x03")
	screen.await(t, "Ctrl-C again")
	typeKeys(t, keys, "\x03")
	require.Equal(t, ExitInterrupted, wait(), screen.String())
	require.Contains(t, screen.String(), "fleet: the task task-1 is being stopped and has not ended; wait for its end: fleet task wait task-1")
}

func TestCtrlCOnceLetsTheTaskGoOn(t *testing.T) {
	t.Parallel()
	s, server, _ := stubWithAgent(t)
	gate, _ := newGate(t)
	screen, keys, wait := runOnTerminal(t, server, "1ms", "task", "run", "papi", "echo one; read x < "+gate, "-f")
	screen.await(t, "one\r\n")
	typeKeys(t, keys, "\x03")
	require.Equal(t, ExitInterrupted, wait(), screen.String())
	require.Contains(t, screen.String(), "fleet task stop papi")
	require.Equal(t, fleetv1.Task_running, s.tasks[0].GetStatus())
}
