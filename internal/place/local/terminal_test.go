package local_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
)

// shellPrompt is the prompt that attach sets. The shell computes a part of it, so that it differs from the text that a person types.
const shellPrompt = "<42> "

// person is a person at a terminal that is connected with a run.
type person struct {
	w         *testPlace
	input     chan fleet.TerminalInput
	result    chan error // gets the result of Attach
	screen    chan string
	unmatched string // the output after the text that the last waitFor has found
}

// attach starts a run for a person, and connects the person's terminal with it.
func (w *testPlace) attach(a fleet.Agent) (fleet.Run, *person) {
	w.t.Helper()
	r := newRun("alice uses the program on a terminal")
	r.Options.Attached = &fleet.AttachedTerminal{By: "alice", Type: "xterm-test", Columns: 101, Rows: 33}
	p := &person{w: w, input: make(chan fleet.TerminalInput), result: make(chan error, 1), screen: make(chan string)}
	go func() { p.result <- w.Attach(w.ctx, a, r, p.input, p.show) }() // Attach waits for the run
	require.NoError(w.t, w.Connect(a).Dispatch(w.ctx, r))
	p.typeLine(`PS1="<$((40+2))> "`)
	return r, p
}

// show receives output from Attach. It waits until the person looks at the screen.
func (p *person) show(output []byte) error {
	select {
	case p.screen <- string(output):
		return nil
	case <-p.w.ctx.Done():
		return p.w.ctx.Err()
	}
}

// send sends input from the terminal. Meanwhile it watches the screen, as a terminal does.
func (p *person) send(i fleet.TerminalInput) {
	p.w.t.Helper()
	for {
		select {
		case p.input <- i:
			return
		case s := <-p.screen:
			p.unmatched += s
		case <-p.w.ctx.Done():
			require.Fail(p.w.t, "nobody reads the terminal", "%q is on the screen", p.unmatched)
		}
	}
}

// waitFor waits until the screen shows the text, after the text that the previous call waited for.
func (p *person) waitFor(text string) {
	p.w.t.Helper()
	for {
		_, rest, found := strings.Cut(p.unmatched, text)
		if found {
			p.unmatched = rest
			return
		}
		select {
		case s := <-p.screen:
			p.unmatched += s
		case err := <-p.result:
			require.Fail(p.w.t, "the program has ended", "with %v, and %q is not in %q", err, text, p.unmatched)
		case <-p.w.ctx.Done():
			require.Fail(p.w.t, "not on the screen", "%q is not in %q", text, p.unmatched)
		}
	}
}

// typeLine enters a line, and waits for the texts and the next prompt.
func (p *person) typeLine(line string, texts ...string) {
	p.w.t.Helper()
	p.send(fleet.TerminalInput{Data: []byte(line + "\n")})
	for _, text := range append(texts, shellPrompt) {
		p.waitFor(text)
	}
}

// waitEnd waits until Attach has returned, and requires that it returned no error.
func (p *person) waitEnd() {
	p.w.t.Helper()
	for {
		select {
		case s := <-p.screen:
			p.unmatched += s
		case err := <-p.result:
			require.NoError(p.w.t, err, p.unmatched)
			return
		case <-p.w.ctx.Done():
			require.Fail(p.w.t, "the terminal is still connected", "%q is on the screen", p.unmatched)
		}
	}
}

// TestTerminal uses the program of an agent on a terminal, in the agent's directory, environment and sandbox.
func TestTerminal(t *testing.T) {
	t.Parallel()
	w, a := newShellPlace(t)
	require.NoError(t, w.CheckAttach(a))
	r, p := w.attach(a)
	p.typeLine(`echo "[$(stty size) $TERM $FLEET_AGENT]"; pwd -P`, "[33 101 xterm-test papi]\r\n"+w.home(a, "work"))
	p.send(fleet.TerminalInput{Columns: 50, Rows: 20})
	p.typeLine(`echo "[$(stty size)]"`, "[20 50]")
	p.typeLine(`echo kept >file; echo "[$(tty -s && echo a terminal)]"`, "[a terminal]")
	p.send(fleet.TerminalInput{Data: []byte(`sh -c 'trap "echo caught \$((40+3)); exit" INT; echo "[$((40+2))]"; while :; do sleep 0.05; done'` + "\n")})
	p.waitFor("[42]")
	p.typeLine("\x03", "caught 43") // Ctrl-C reaches the program in the foreground

	// Nobody else gets the terminal, and nothing else runs.
	requireReason(t, w.Attach(w.ctx, a, r, nil, p.show), fleet.ReasonAgentBusy)
	requireReason(t, w.Connect(a).Dispatch(w.ctx, newRun("true")), fleet.ReasonAgentBusy)

	p.send(fleet.TerminalInput{Data: []byte("exit 3\n")})
	p.waitEnd()
	output, o := w.follow(a, r)
	require.Empty(t, output, "the output on a terminal must not be stored")
	require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
	require.Equal(t, "kept", w.mustRun(a, "cat file"))
	require.NoError(t, w.Attach(w.ctx, a, r, nil, p.show), "the run has ended")
}

// TestTerminalOutput checks that a person gets all of a large output.
func TestTerminalOutput(t *testing.T) {
	t.Parallel()
	w, a := newShellPlace(t)
	_, p := w.attach(a)
	p.send(fleet.TerminalInput{Data: []byte("stty -onlcr -echo; head -c 20000000 /dev/zero | tr '\\0' x; echo\n")})
	for n := 0; n < 20_000_000; n += strings.Count(p.unmatched, "x") {
		select {
		case p.unmatched = <-p.screen:
		case <-w.ctx.Done():
			require.Fail(t, "output is missing", "only %d bytes came", n)
		}
	}
	p.waitFor(shellPrompt)
	p.send(fleet.TerminalInput{Data: []byte("exit\n")})
	p.waitEnd()
}

// TestTerminalEnds checks that nothing is left of a program that loses its terminal or is stopped, even if it ignores signals.
func TestTerminalEnds(t *testing.T) {
	t.Parallel()
	const stubborn = `trap '' HUP TERM; (trap '' HUP TERM; sleep 1000) & setsid sleep 1000 &`
	for name, end := range map[string]func(*testPlace, fleet.Agent, fleet.Run, *person){
		"disconnected": func(_ *testPlace, _ fleet.Agent, _ fleet.Run, p *person) { close(p.input) },
		"stopped": func(w *testPlace, a fleet.Agent, r fleet.Run, _ *person) {
			w.kill(a, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestPlace(t, func(c *local.Config) { c.StopGrace = 50 * time.Millisecond })
			a := w.provisionIn("shell")
			r, p := w.attach(a)
			p.typeLine(stubborn)
			end(w, a, r, p)
			p.waitEnd()
			_, o := w.follow(a, r)
			require.Equal(t, fleet.TaskStopped, o.Status, o.Reason)
			require.Empty(t, runProcessesIn(t, w.home(a)))
			require.Equal(t, "free", w.mustRun(a, "echo free"))
		})
	}
}

// TestTerminalOfOtherPrograms checks that CheckAttach refuses agents whose driver has no terminal.
func TestTerminalOfOtherPrograms(t *testing.T) {
	t.Parallel()
	w := newTestPlace(t, func(c *local.Config) {
		c.Projects = append(c.Projects, local.Project{Name: "mine", Driver: "command", Command: []string{"true"}})
	})
	requireError(t, w.CheckAttach(w.provisionIn("mine")), fleet.ReasonUnimplemented, "the driver command")
}
