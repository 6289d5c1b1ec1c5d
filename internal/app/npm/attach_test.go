package npm

import (
	"os"
	"os/exec"
	"regexp"
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

// terminal is a terminal on which fleet runs.
type terminal struct {
	cmd   *exec.Cmd
	tty   *os.File
	ended chan struct{} // closed when fleet has closed the terminal

	mu      sync.Mutex
	output  string        // the output after the last text that waitForText has found
	changed chan struct{} // gets a value after changes of output
}

// onTerminal runs fleet with the arguments on a terminal.
func (s *server) onTerminal(t *testing.T, args ...string) *terminal {
	t.Helper()
	x := &terminal{cmd: exec.Command(program(t), append(args, "--server", s.grpc)...), ended: make(chan struct{}), changed: make(chan struct{}, 1)}
	x.cmd.Env = []string{"TERM=xterm-256color", "PATH=" + os.Getenv("PATH")}
	var err error
	x.tty, err = pty.StartWithSize(x.cmd, &pty.Winsize{Rows: 40, Cols: 120})
	require.NoError(t, err)
	go func() {
		defer close(x.ended)
		for b := make([]byte, 32<<10); ; {
			n, err := x.tty.Read(b)
			x.mu.Lock()
			x.output += string(b[:n])
			x.mu.Unlock()
			select {
			case x.changed <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = x.cmd.Process.Kill()
		_ = x.tty.Close()
		<-x.ended
	})
	return x
}

var (
	// cursorMovePattern matches movements of the cursor within a line. Programs write them instead of spaces.
	cursorMovePattern = regexp.MustCompile(`\x1b\[[0-9]*[CG]`)
	// stylePattern matches changes of colours and fonts.
	stylePattern = regexp.MustCompile(`\x1b\[[0-9;]*m`)
)

// waitForText waits until the text appears in the output after the text of the previous call. It ignores styles.
func (x *terminal) waitForText(t *testing.T, text string) {
	t.Helper()
	limit := time.After(defaultTimeout)
	for {
		x.mu.Lock()
		screen := cursorMovePattern.ReplaceAllString(stylePattern.ReplaceAllString(x.output, ""), " ")
		_, rest, found := strings.Cut(screen, text)
		if found {
			x.output = rest
		}
		x.mu.Unlock()
		if found {
			return
		}
		select {
		case <-x.changed:
		case <-limit:
			require.Fail(t, "the text must appear on the terminal", "%q is not in %q", text, screen)
		}
	}
}

func (x *terminal) typeText(t *testing.T, text string) {
	t.Helper()
	_, err := x.tty.WriteString(text)
	require.NoError(t, err)
}

// waitForEnd waits for the end of fleet, and returns its exit code.
func (x *terminal) waitForEnd(t *testing.T) int {
	t.Helper()
	waitClosed(t, x.ended, "fleet did not end")
	_ = x.cmd.Wait()
	return x.cmd.ProcessState.ExitCode()
}

// TestAttach uses an agent's shell on a terminal, through a real server.
func TestAttach(t *testing.T) {
	c := &claudeFleet{home: newHome(t)}
	require.NoError(t, os.WriteFile(c.home.path("fleet.yaml"), []byte("local: {projects: [{name: code, driver: shell}]}\n"), 0o600))
	c.serve(t)
	c.create(t, "papi", "coder")

	x := c.onTerminal(t, "agent", "attach", "papi")
	x.typeText(t, "echo \"<$(stty size) $FLEET_AGENT>\" | tee made\n")
	x.waitForText(t, "<40 120 papi>\r\n")
	x.typeText(t, `sh -c 'trap "stty size; exit" WINCH; echo "[$((40+2))]"; while :; do sleep 0.05; done'`+"\n")
	x.waitForText(t, "[42]")
	require.NoError(t, pty.Setsize(x.tty, &pty.Winsize{Rows: 30, Cols: 99}))
	x.waitForText(t, "30 99\r\n")

	// While a person is attached, Fleet refuses tasks and other terminals. The error names the person.
	_, err := c.api.StartAgentTask(t.Context(), &fleetv1.StartAgentTaskRequest{AgentName: "papi", TaskDescription: "true"})
	require.Equal(t, codes.Aborted, status.Code(err))
	require.ErrorContains(t, err, `local has been using the program of agent "papi" on a terminal since 2`)
	second := c.onTerminal(t, "agent", "attach", "papi")
	second.waitForText(t, "has been using the program")
	require.Equal(t, 4, second.waitForEnd(t))
	waiting := c.onTerminal(t, "task", "run", "papi", "cat made", "--follow") // this task may wait
	waiting.waitForText(t, "The task starts when they leave it.")

	x.typeText(t, "exit\n")
	require.Equal(t, 0, x.waitForEnd(t))
	x.waitForText(t, "Its next task continues the conversation.")
	waiting.waitForText(t, "<40 120 papi>")
	require.Equal(t, 0, waiting.waitForEnd(t))

	// The command needs a terminal.
	out, err := exec.Command(program(t), "agent", "attach", "papi", "--server", c.grpc).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "must be a terminal")

	// Nothing remains when the person disconnects or the server is killed.
	for _, leave := range []func(*terminal){
		func(x *terminal) { require.NoError(t, x.cmd.Process.Kill()) },
		func(*terminal) { c.kill(t); c.serve(t) },
	} {
		x = c.onTerminal(t, "agent", "attach", "papi")
		x.typeText(t, "trap '' HUP; sleep 1000 & echo \"<$((40+2))>\"\n")
		x.waitForText(t, "<42>")
		leave(x)
		require.Eventually(t, func() bool {
			a, err := c.api.ShowAgent(t.Context(), &fleetv1.ShowAgentRequest{AgentName: "papi"})
			return err == nil && a.GetAgent().GetStatus() == fleetv1.Agent_idle
		}, defaultTimeout, 20*time.Millisecond)
		require.Empty(t, c.processes("papi"))
		require.NotZero(t, x.waitForEnd(t))
	}
}

// TestClaudeAttach uses Claude Code on a terminal between two tasks.
func TestClaudeAttach(t *testing.T) {
	c := newClaudeFleet(t, role{"name": "coder", "model": pricedModel, "prompt": "You write code."})
	c.create(t, "papi", "coder")
	require.Equal(t, "Ducks", c.runTask(t, "papi", "Name the birds.", "model: say Ducks").GetSummary())
	session := c.sessionID(t, "papi")
	require.NotEmpty(t, session)

	x := c.onTerminal(t, "agent", "attach", "papi")
	x.waitForText(t, "● Ducks") // from the conversation so far
	x.enterLines(t, "Count them.", "model: say Seven")
	x.waitForText(t, "● Seven")
	x.detach(t)
	q := c.requestsWith("Count them.")[0]
	require.Contains(t, q.conversationText(), "assistant: Ducks")
	require.Contains(t, q.System.text(), "You write code.")
	require.Equal(t, session, c.sessionID(t, "papi"))
	require.Equal(t, "Yes", c.runTask(t, "papi", "Do you remember?", "model: say Yes").GetSummary())
	conversation := c.requestsWith("Do you remember?")[0].conversationText()
	require.Contains(t, conversation, "Name the birds.")
	require.Contains(t, conversation, "Count them.")
	require.Contains(t, conversation, "assistant: Seven")

	// A person can begin the conversation of a new agent. If the person says nothing, there is no conversation.
	c.create(t, "mami", "coder")
	x = c.onTerminal(t, "agent", "attach", "mami")
	x.detach(t)
	x = c.onTerminal(t, "agent", "attach", "mami")
	x.enterLines(t, "Name the fish.", "model: say Carp")
	x.waitForText(t, "● Carp")
	x.detach(t)
	require.Contains(t, c.requestsWith("Name the fish.")[0].System.text(), "You write code.")
	require.NotEmpty(t, c.sessionID(t, "mami"))
	require.Equal(t, "Two", c.runTask(t, "mami", "Count the fish.", "model: say Two").GetSummary())
	require.Contains(t, c.requestsWith("Count the fish.")[0].conversationText(), "assistant: Carp")
}

// sessionID returns the id of the agent's conversation.
func (c *claudeFleet) sessionID(t *testing.T, agent string) string {
	t.Helper()
	r, err := c.api.ShowAgent(t.Context(), &fleetv1.ShowAgentRequest{AgentName: agent})
	require.NoError(t, err)
	return r.GetAgent().GetSessionId()
}

// enterLines enters the lines as one message to Claude Code. The last line must begin with "model: ".
func (x *terminal) enterLines(t *testing.T, lines ...string) {
	t.Helper()
	x.waitForText(t, "❯")
	x.typeText(t, "\x1b[200~"+strings.Join(lines, "\n")+"\x1b[201~") // as a paste
	x.waitForText(t, lines[len(lines)-1][len("model: "):])
	x.typeText(t, "\r")
}

// detach exits Claude Code, and requires that fleet ends without an error.
func (x *terminal) detach(t *testing.T) {
	t.Helper()
	x.waitForText(t, "❯")
	x.typeText(t, "/exit")
	x.waitForText(t, "Exit the CLI")
	x.typeText(t, "\r")
	require.Equal(t, 0, x.waitForEnd(t))
}
