package cli

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
)

// runOnTerminal runs the program as a process on its own pseudo-terminal. secondPress is how long the program waits for a second Ctrl-C; ""
// means the default. wait waits for the end of the process and returns its exit code.
func runOnTerminal(t *testing.T, server, secondPress string, args ...string) (screen *outputBuffer, keys *os.File, wait func() int) {
	cmd := exec.Command("fleet", args...)
	cmd.Env = append(os.Environ(), "FLEET_SERVER="+server, "TERM=xterm", "GORACE=atexit_sleep_ms=0", "NO_COLOR=", "TEST_SECOND_PRESS="+secondPress)
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 100})
	require.NoError(t, err)
	screen = newOutputBuffer()
	readDone := make(chan struct{})
	go func() {
		defer close(readDone)
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
		<-readDone
		return cmd.ProcessState.ExitCode()
	}
}

// typeKeys types the text on the terminal of runOnTerminal.
func typeKeys(t *testing.T, keys *os.File, text string) {
	_, err := keys.WriteString(text)
	require.NoError(t, err)
}

func TestDeleteAsksOnATerminal(t *testing.T) {
	t.Parallel()
	s, server, _ := stubWithAgent(t)
	screen, keys, wait := runOnTerminal(t, server, "", "agent", "delete", "papi")
	screen.await(t, "[y/N] ")
	typeKeys(t, keys, "\n")
	require.Equal(t, ExitError, wait())
	require.Contains(t, screen.String(), "nothing was deleted")
	require.Len(t, s.agents, 1)

	screen, keys, wait = runOnTerminal(t, server, "", "agent", "delete", "papi")
	screen.await(t, "[y/N] ")
	typeKeys(t, keys, "yes\n")
	require.Equal(t, ExitOK, wait(), screen.String())
	require.Empty(t, s.agents)
}

// TestDeleteAsksBeforeWorkIsLost checks that the command asks again if an agent has work that exists only in its workspace.
func TestDeleteAsksBeforeWorkIsLost(t *testing.T) {
	t.Parallel()
	s, server, _ := stubWithAgent(t)
	s.unsavedWork = "three commits exist only there"
	for _, answer := range []string{"n", "y"} {
		screen, keys, wait := runOnTerminal(t, server, "", "agent", "delete", "papi")
		screen.await(t, "[y/N] ")
		typeKeys(t, keys, "y\n")
		screen.await(t, "three commits exist only there")
		screen.await(t, "anyway? [y/N] ")
		typeKeys(t, keys, answer+"\n")
		wait()
		_, exists := s.agents["papi"]
		require.Equal(t, answer == "n", exists, screen.String())
	}
}

func TestOutputOfAgentsCannotControlTheTerminal(t *testing.T) {
	t.Parallel()
	_, server, _ := stubWithAgent(t)
	evil := `printf '\033]0;owned\007\033[31mred\033[0m\033[2J\n'`
	screen, _, wait := runOnTerminal(t, server, "", "task", "run", "papi", evil, "-f")
	require.Equal(t, ExitOK, wait(), screen.String())
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
	screen, _, wait := runOnTerminal(t, server, "", "agent", "list")
	require.Equal(t, ExitOK, wait())
	require.Contains(t, screen.String(), "\x1b[33mbusy\x1b[0m")
	require.Contains(t, screen.String(), "…")
	for line := range strings.SplitSeq(screen.String(), "\r\n") {
		require.LessOrEqual(t, len([]rune((&sanitizer{}).clean(line))), 100)
	}
	out, _, _ := runFleet(server, "agent", "list")
	require.Contains(t, out, strings.Repeat("long ", 20), "if standard output is not a terminal, texts must be whole")
	require.NotContains(t, out, "\x1b")
}
