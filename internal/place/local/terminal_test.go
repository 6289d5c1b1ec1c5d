package local_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
)

// prompt is what the shell of a test shows before it reads a line. The shell computes it, so that it differs from what a person types.
const prompt = "<42> "

// person is a person at a terminal that is connected with a run.
type person struct {
	w      *world
	input  chan fleet.TerminalInput
	left   chan error // gets the result of Attach
	screen chan string
	seen   string // what was on the screen after the text for which sees waited last
}

// attach starts a run for a person, and connects the person's terminal with it.
func (w *world) attach(a fleet.Agent) (fleet.Run, *person) {
	w.t.Helper()
	r := newRun("alice uses the program on a terminal")
	r.Options.Attached = &fleet.Attached{By: "alice", Type: "xterm-test", Columns: 101, Rows: 33}
	p := &person{w: w, input: make(chan fleet.TerminalInput), left: make(chan error, 1), screen: make(chan string)}
	go func() { p.left <- w.Attach(w.ctx, a, r, p.input, p.show) }() // it waits for the run
	require.NoError(w.t, w.Connect(a).Dispatch(w.ctx, r))
	p.types(`PS1="<$((40+2))> "`)
	return r, p
}

func (p *person) show(output []byte) error {
	select {
	case p.screen <- string(output):
		return nil
	case <-p.w.ctx.Done():
		return p.w.ctx.Err()
	}
}

// sends sends something from the terminal. Meanwhile it watches the screen, as a terminal does.
func (p *person) sends(i fleet.TerminalInput) {
	p.w.t.Helper()
	for {
		select {
		case p.input <- i:
			return
		case s := <-p.screen:
			p.seen += s
		case <-p.w.ctx.Done():
			require.Fail(p.w.t, "nobody reads the terminal", "%q is on the screen", p.seen)
		}
	}
}

// sees waits until the screen shows the text after the one before.
func (p *person) sees(text string) {
	p.w.t.Helper()
	for {
		_, rest, found := strings.Cut(p.seen, text)
		if found {
			p.seen = rest
			return
		}
		select {
		case s := <-p.screen:
			p.seen += s
		case err := <-p.left:
			require.Fail(p.w.t, "the program has ended", "with %v, and %q is not in %q", err, text, p.seen)
		case <-p.w.ctx.Done():
			require.Fail(p.w.t, "not on the screen", "%q is not in %q", text, p.seen)
		}
	}
}

// types enters a line, and waits for the texts and the next prompt.
func (p *person) types(line string, texts ...string) {
	p.w.t.Helper()
	p.sends(fleet.TerminalInput{Data: []byte(line + "\n")})
	for _, text := range append(texts, prompt) {
		p.sees(text)
	}
}

// leaves waits until the run has ended.
func (p *person) leaves() {
	p.w.t.Helper()
	for {
		select {
		case s := <-p.screen:
			p.seen += s
		case err := <-p.left:
			require.NoError(p.w.t, err, p.seen)
			return
		case <-p.w.ctx.Done():
			require.Fail(p.w.t, "the terminal is still connected", "%q is on the screen", p.seen)
		}
	}
}

// TestTerminal uses the program of an agent on a terminal, in the agent's directory, environment and sandbox.
func TestTerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	a := w.agent("shell")
	require.NoError(t, w.CheckAttach(a))
	r, p := w.attach(a)
	p.types(`echo "[$(stty size) $TERM $FLEET_AGENT]"; pwd -P`, "[33 101 xterm-test papi]\r\n"+w.home(a, "work"))
	p.sends(fleet.TerminalInput{Columns: 50, Rows: 20})
	p.types(`echo "[$(stty size)]"`, "[20 50]")
	p.types(`echo kept >file; echo "[$(tty -s && echo a terminal)]"`, "[a terminal]")
	p.sends(fleet.TerminalInput{Data: []byte(`sh -c 'trap "echo caught \$((40+3)); exit" INT; echo "[$((40+2))]"; while :; do sleep 0.05; done'` + "\n")})
	p.sees("[42]")
	p.types("\x03", "caught 43") // Ctrl-C reaches the program in the foreground

	// Nobody else gets the terminal, and nothing else runs.
	err := w.Attach(w.ctx, a, r, nil, p.show)
	require.Equal(t, fleet.ReasonAgentBusy, fleet.ReasonOf(err), "%v", err)
	err = w.Connect(a).Dispatch(w.ctx, newRun("true"))
	require.Equal(t, fleet.ReasonAgentBusy, fleet.ReasonOf(err), "%v", err)

	p.sends(fleet.TerminalInput{Data: []byte("exit 3\n")})
	p.leaves()
	output, o := w.follow(a, r)
	require.Empty(t, output, "nobody stores what was on the screen")
	require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
	_, o = w.do(a, "cat file")
	require.Equal(t, "kept", o.Summary)
	require.NoError(t, w.Attach(w.ctx, a, r, nil, p.show), "the run has ended")
}

// TestTerminalOutput checks that a person who reads slowly gets all output, and that the program waits for them.
func TestTerminalOutput(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	a := w.agent("shell")
	_, p := w.attach(a)
	p.sends(fleet.TerminalInput{Data: []byte("stty -onlcr -echo; head -c 20000000 /dev/zero | tr '\\0' x; echo\n")})
	for n := 0; n < 20_000_000; n += strings.Count(p.seen, "x") {
		select {
		case p.seen = <-p.screen:
		case <-w.ctx.Done():
			require.Fail(t, "output is missing", "only %d bytes came", n)
		}
	}
	p.sees(prompt)
	p.sends(fleet.TerminalInput{Data: []byte("exit\n")})
	p.leaves()
}

// TestTerminalEnds checks that nothing is left of a program that loses its terminal or is stopped, even if it ignores signals.
func TestTerminalEnds(t *testing.T) {
	t.Parallel()
	const stubborn = `trap '' HUP TERM; (trap '' HUP TERM; sleep 1000) & setsid sleep 1000 &`
	for name, end := range map[string]func(*world, fleet.Agent, fleet.Run, *person){
		"disconnected": func(_ *world, _ fleet.Agent, _ fleet.Run, p *person) { close(p.input) },
		"stopped": func(w *world, a fleet.Agent, r fleet.Run, _ *person) {
			require.NoError(w.t, w.Connect(a).Interrupt(w.ctx, r, true))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *local.Config) { c.StopGrace = 50 * time.Millisecond })
			a := w.agent("shell")
			r, p := w.attach(a)
			p.types(stubborn)
			end(w, a, r, p)
			p.leaves()
			_, o := w.follow(a, r)
			require.Equal(t, fleet.TaskStopped, o.Status, o.Reason)
			require.Empty(t, children(t, w.home(a)))
			_, o = w.do(a, "echo free")
			require.Equal(t, "free", o.Summary)
		})
	}
}

func TestTerminalOfOtherPrograms(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *local.Config) {
		c.Projects = append(c.Projects, local.Project{Name: "mine", Driver: "command", Command: []string{"true"}})
	})
	err := w.CheckAttach(w.agent("mine"))
	require.Equal(t, fleet.ReasonUnimplemented, fleet.ReasonOf(err), "%v", err)
	require.ErrorContains(t, err, "the driver command")
}
