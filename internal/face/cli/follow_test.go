package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
)

// newGate makes a named pipe. A task that reads it waits until open is called.
func newGate(t *testing.T) (path string, open func()) {
	path = filepath.Join(t.TempDir(), "gate")
	require.NoError(t, exec.Command("mkfifo", path).Run())
	return path, func() { require.NoError(t, os.WriteFile(path, []byte("x\n"), 0o600)) }
}

func stubWithAgent(t *testing.T) (s *stub, server string, stop func()) {
	s = newStub(t)
	server, stop = s.listen(t, "")
	mustRun(t, server, "agent", "create", "papi", "--project", "shell", "--spec", "x")
	return s, server, stop
}

func TestFollowGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	s, server, stop := stubWithAgent(t)
	first, openFirst := newGate(t)
	second, openSecond := newGate(t)

	c := newCommand(server)
	code := c.start("task", "run", "papi", fmt.Sprintf("echo one; read x < %s; echo two; read x < %s; echo three", first, second), "--follow")
	c.out.await(t, "one\n")
	stop() // like a crash; the log keeps the events until the server is back
	openFirst()
	c.err.await(t, "broke")
	_, stop = s.listen(t, server)
	c.out.await(t, "two\n")
	c.err.await(t, "Connected again.")
	stop()
	s.listen(t, server)
	openSecond()
	require.Equal(t, ExitOK, waitForExit(t, code), c.err.String())
	require.Equal(t, "one\ntwo\nthree\n", c.out.String())
	require.Contains(t, c.err.String(), "Completed in")
}

// TestFollowTakesEachEventOnce checks that each event is shown once, although the server ends streams in different ways
// and sends events again.
func TestFollowTakesEachEventOnce(t *testing.T) {
	t.Parallel()
	s, server, _ := stubWithAgent(t)
	var mu sync.Mutex
	streams := 0
	s.stream = func(r *fleetv1.WatchFleetRequest) error {
		mu.Lock()
		defer mu.Unlock()
		if !r.GetFollow() {
			return nil
		}
		switch streams++; streams {
		case 1:
			return status.Error(codes.Unavailable, "not yet")
		case 2:
			return status.Error(codes.Canceled, "going down")
		case 3:
			r.Cursor = "" // send all events again
		}
		return nil
	}
	out, _ := mustRun(t, server, "task", "run", "papi", "for i in 1 2 3 4 5; do echo $i; done", "-f")
	require.Equal(t, "1\n2\n3\n4\n5\n", out)
	require.Equal(t, 3, streams)
}

// TestFollowMissesNothingAfterAnEarlyEnd checks that no output is missing, although the server ends the stream without
// an error before the task's events were sent.
func TestFollowMissesNothingAfterAnEarlyEnd(t *testing.T) {
	t.Parallel()
	s, server, _ := stubWithAgent(t)
	var once sync.Once
	s.stream = func(r *fleetv1.WatchFleetRequest) (err error) {
		once.Do(func() {
			_, _, err = s.waitForTasks(t.Context(), []string{r.GetTaskId()}, false, time.Minute)
			if err == nil {
				err = errEarly
			}
		})
		return err
	}
	out, _ := mustRun(t, server, "task", "run", "papi", "echo one; echo two", "-f")
	require.Equal(t, "one\ntwo\n", out)
}

func TestFollowGivesUpWithAHint(t *testing.T) {
	t.Parallel()
	_, server, stop := stubWithAgent(t)
	blocked, _ := newGate(t)
	c := newCommand(server)
	c.reconnectTime = 1 // nanosecond
	code := c.start("task", "run", "papi", "echo one; read x < "+blocked, "-f")
	c.out.await(t, "one\n")
	stop()
	require.Equal(t, ExitUnavailable, waitForExit(t, code))
	require.Regexp(t, `fleet: cannot reach .*; the task may go on; to follow it again: fleet watch --task task-1 --cursor 5 --follow\n$`, c.err.String())
}

func TestInterruptEndsFollowingOnly(t *testing.T) {
	t.Parallel()
	s, server, _ := stubWithAgent(t)
	gate, open := newGate(t)
	c := newCommand(server)
	code := c.start("task", "run", "papi", "echo one; read x < "+gate, "-f")
	c.out.await(t, "one\n")
	c.signals <- os.Interrupt
	require.Equal(t, ExitInterrupted, waitForExit(t, code))
	require.Contains(t, c.err.String(), "fleet: no longer following; the task task-1 goes on; follow it: fleet watch --task task-1 --follow, or stop it: fleet task stop papi\n")
	require.Equal(t, fleetv1.Task_running, s.tasks[0].GetStatus())
	open()
	_, _, ended := runFleet(server, "task", "wait", "task-1")
	require.Equal(t, ExitOK, ended)
}

func TestStopOnInterrupt(t *testing.T) {
	t.Parallel()
	_, server, _ := stubWithAgent(t)
	gate, _ := newGate(t)
	c := newCommand(server)
	code := c.start("task", "run", "papi", "echo one; read x < "+gate, "-f", "--stop-on-interrupt", "-o", "json", "-v")
	c.err.await(t, "one\n")
	c.signals <- os.Interrupt
	require.Equal(t, ExitStopped, waitForExit(t, code))
	require.Contains(t, c.out.String(), `"status": "stopped"`)
	require.Contains(t, c.err.String(), `"error": "TASK_STOPPED"`)
}

// runOnTerminal runs the program as a process on its own pseudo-terminal.
func runOnTerminal(t *testing.T, server, secondPress string, args ...string) (screen *output, keys *os.File, end func() int) {
	cmd := exec.Command("fleet", args...)
	cmd.Env = append(os.Environ(), "FLEET_SERVER="+server, "TERM=xterm", "GORACE=atexit_sleep_ms=0", "NO_COLOR=", "TEST_SECOND_PRESS="+secondPress)
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 100})
	require.NoError(t, err)
	screen = newOutput()
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 4096)
		for {
			n, err := tty.Read(buf)
			_, _ = screen.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = tty.Close()
	})
	return screen, tty, func() int {
		_ = cmd.Wait()
		<-read
		return cmd.ProcessState.ExitCode()
	}
}

func typeKeys(t *testing.T, keys *os.File, text string) {
	_, err := keys.WriteString(text)
	require.NoError(t, err)
}

func TestCtrlCTwiceStopsTheTask(t *testing.T) {
	t.Parallel()
	s, server, _ := stubWithAgent(t)
	gate, _ := newGate(t)
	screen, keys, end := runOnTerminal(t, server, "1m", "task", "run", "papi", "echo one; read x < "+gate, "-f")
	screen.await(t, "one\r\n")
	screen.await(t, spinnerFrames[0]+" papi 0s") // the progress line
	typeKeys(t, keys, "\x03")
	screen.await(t, "Ctrl-C again within 1m00s stops the task too.")
	typeKeys(t, keys, "\x03")
	screen.await(t, "Stopping the task ...")
	require.Equal(t, ExitStopped, end(), screen.String())
	require.Contains(t, screen.String(), "fleet: the task task-1 of papi was stopped")
	require.Equal(t, fleetv1.Task_stopped, s.tasks[0].GetStatus())
}

func TestCtrlCOnceLetsTheTaskGoOn(t *testing.T) {
	t.Parallel()
	s, server, _ := stubWithAgent(t)
	gate, _ := newGate(t)
	screen, keys, end := runOnTerminal(t, server, "1ms", "task", "run", "papi", "echo one; read x < "+gate, "-f")
	screen.await(t, "one\r\n")
	typeKeys(t, keys, "\x03")
	require.Equal(t, ExitInterrupted, end(), screen.String())
	require.Contains(t, screen.String(), "fleet task stop papi")
	require.Equal(t, fleetv1.Task_running, s.tasks[0].GetStatus())
}

func TestDeleteAsksOnATerminal(t *testing.T) {
	t.Parallel()
	s, server, _ := stubWithAgent(t)
	screen, keys, end := runOnTerminal(t, server, "", "agent", "delete", "papi")
	screen.await(t, "[y/N] ")
	typeKeys(t, keys, "\n")
	require.Equal(t, ExitError, end())
	require.Contains(t, screen.String(), "nothing was deleted")
	require.Len(t, s.agents, 1)

	screen, keys, end = runOnTerminal(t, server, "", "agent", "delete", "papi")
	screen.await(t, "[y/N] ")
	typeKeys(t, keys, "yes\n")
	require.Equal(t, ExitOK, end(), screen.String())
	require.Empty(t, s.agents)
}

// TestDeleteAsksBeforeWorkIsLost checks that the command asks again if an agent has work that exists only in its workspace, and
// that it does not ask with --yes or --keep-unsaved.
func TestDeleteAsksBeforeWorkIsLost(t *testing.T) {
	t.Parallel()
	s, server, _ := stubWithAgent(t)
	s.unsaved = "three commits exist only there"
	for _, answer := range []string{"n", "y"} {
		screen, keys, end := runOnTerminal(t, server, "", "agent", "delete", "papi")
		screen.await(t, "[y/N] ")
		typeKeys(t, keys, "y\n")
		screen.await(t, "three commits exist only there")
		screen.await(t, "anyway? [y/N] ")
		typeKeys(t, keys, answer+"\n")
		end()
		_, exists := s.agents["papi"]
		require.Equal(t, answer == "n", exists, screen.String())
	}
}

func TestOutputOfAgentsCannotControlTheTerminal(t *testing.T) {
	t.Parallel()
	_, server, _ := stubWithAgent(t)
	evil := `printf '\033]0;owned\007\033[31mred\033[0m\033[2J\n'`
	screen, _, end := runOnTerminal(t, server, "", "task", "run", "papi", evil, "-f")
	require.Equal(t, ExitOK, end(), screen.String())
	require.Contains(t, screen.String(), "\x1b[31mred\x1b[0m\r\n")
	require.NotContains(t, screen.String(), "owned\a")
	require.NotContains(t, screen.String(), "\x1b[2J")

	out, _, code := runFleet(server, "task", "run", "papi", evil, "-f") // a pipe gets every byte
	require.Equal(t, ExitOK, code)
	require.Equal(t, "\x1b]0;owned\a\x1b[31mred\x1b[0m\x1b[2J\n", out)
}

func TestTablesFitTheTerminal(t *testing.T) {
	t.Parallel()
	_, server, _ := stubWithAgent(t)
	gate, _ := newGate(t)
	mustRun(t, server, "task", "start", "papi", ": "+strings.Repeat("long ", 40)+"; read x < "+gate)
	screen, _, end := runOnTerminal(t, server, "", "agent", "list")
	require.Equal(t, ExitOK, end())
	require.Contains(t, screen.String(), "\x1b[33mbusy\x1b[0m")
	require.Contains(t, screen.String(), "…")
	for line := range strings.SplitSeq(screen.String(), "\r\n") {
		require.LessOrEqual(t, len([]rune((&sanitizer{}).clean(line))), 100)
	}
	out, _, _ := runFleet(server, "agent", "list")
	require.Contains(t, out, strings.Repeat("long ", 20), "not a terminal: nothing is cut")
	require.NotContains(t, out, "\x1b")
}

// TestFollowFromTerminal checks that "task run --follow" explains at the end that the result was read from the agent's terminal.
func TestFollowFromTerminal(t *testing.T) {
	t.Parallel()
	s, server, _ := stubWithAgent(t)
	yes := true
	s.unary = func(_ context.Context, method string, _ any) error {
		if strings.HasSuffix(method, "/ShowTask") {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.tasks[0].FromTerminal = &yes
		}
		return nil
	}
	out, stderr := mustRun(t, server, "task", "run", "papi", "echo one", "--follow")
	require.Equal(t, "one\n", out)
	require.Contains(t, stderr, "The result was read from the agent's terminal")
}
