package local_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
	"fleet/internal/runner"
	"fleet/internal/runner/acp/acptest"
	"fleet/internal/runner/sandbox"
	"fleet/internal/waittest"
)

// TestMain lets the test binary also act as the shim, as a server that can be killed, and as other programs of the tests.
func TestMain(m *testing.M) {
	if code, ran := runner.Main(os.Args[1:]); ran {
		os.Exit(code)
	}
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case "forge":
			os.Exit(forgeAnswer(os.Args[2], os.Args[3]))
		case "peer":
			acptest.Peer(os.Args[2])
			os.Exit(0)
		case "server":
			serveUntilKilled(os.Args[2])
		case "check":
			checkUntilKilled(os.Args[2], os.Args[3], os.Args[4], os.Args[5])
		}
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // lets shims end at once under the race detector
	waittest.VerifyTestMain(m)
}

// testBinary returns the path of the test binary.
func testBinary(t testing.TB) string {
	exe, err := os.Executable()
	require.NoError(t, err)
	return exe
}

// supervisor returns the path of the program that supervises runs.
func supervisor(t testing.TB) string {
	exe, err := sandbox.Executable()
	require.NoError(t, err)
	return exe
}

// newPlace creates a place in dir. It has only the project "shell" unless change configures other projects.
func newPlace(t testing.TB, dir string, change func(*local.Config)) *local.Place {
	t.Helper()
	c := local.Config{
		Dir: dir, Program: supervisor(t), StopGrace: 200 * time.Millisecond, PassEnv: []string{"GORACE"},
		Projects: local.Discover(func(string) (string, error) { return "", exec.ErrNotFound }),
	}
	if change != nil {
		change(&c)
	}
	p, err := local.New(c)
	require.NoError(t, err)
	return p
}

// testPlace is a place with helpers for a test.
type testPlace struct {
	*local.Place
	t   *testing.T
	dir string          // the directory of the place
	ctx context.Context // is done when the test takes too long
}

// newTestPlace returns a place like that of newPlace. At the end of the test, it deletes the agents and closes the place. The test
// fails if a process is left then.
func newTestPlace(t *testing.T, change func(*local.Config)) *testPlace {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waittest.Limit)
	w := &testPlace{t: t, dir: t.TempDir(), ctx: ctx}
	w.Place = newPlace(t, w.dir, change)
	t.Cleanup(func() {
		defer cancel()
		all, err := w.List(ctx)
		require.NoError(t, err)
		for _, ws := range all {
			_, err := w.Delete(ctx, fleet.Agent{UID: ws.ID, Name: ws.Name})
			require.NoError(t, err)
		}
		require.NoError(t, w.Close())
		require.Empty(t, processesIn(t, w.dir), "no process may be left")
	})
	return w
}

// newShellPlace returns a place and an agent of its project "shell".
func newShellPlace(t *testing.T) (*testPlace, fleet.Agent) {
	t.Helper()
	w := newTestPlace(t, nil)
	return w, w.provisionIn("shell")
}

// processesIn returns the pids and command lines of the processes that work below dir, or that have the path of dir in their
// environment. With an empty dir, it returns those of all processes.
func processesIn(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil // this system has no /proc
	}
	var found []string
	for _, e := range entries {
		proc := filepath.Join("/proc", e.Name())
		env, _ := os.ReadFile(filepath.Join(proc, "environ"))
		cwd, _ := os.Readlink(filepath.Join(proc, "cwd"))
		if strings.Contains(string(env), dir) || strings.HasPrefix(cwd, dir) {
			line, _ := os.ReadFile(filepath.Join(proc, "cmdline"))
			if len(line) > 0 { // zombies have no command line
				found = append(found, e.Name()+" "+strings.ReplaceAll(string(line), "\x00", " "))
			}
		}
	}
	return found
}

// runProcessesIn is like processesIn, but leaves out shims, which end shortly after their runs.
func runProcessesIn(t testing.TB, dir string) []string {
	shim := supervisor(t)
	return slices.DeleteFunc(processesIn(t, dir), func(line string) bool {
		args := strings.Fields(line)
		return len(args) > 2 && args[1] == shim && args[2] == "shim"
	})
}

// provisionIn provisions an agent of the project.
func (w *testPlace) provisionIn(project string) fleet.Agent {
	w.t.Helper()
	return w.provision(fleet.Agent{UID: uuid.NewString(), Name: "papi", Owner: "alice", Project: project, Role: "coder", Spec: "Keep the tests green."})
}

// provision creates the workspace of the agent, which must run, and returns the agent.
func (w *testPlace) provision(a fleet.Agent) fleet.Agent {
	w.t.Helper()
	ws, err := w.Provision(w.ctx, a)
	require.NoError(w.t, err)
	require.Equal(w.t, fleet.StateRunning, ws.State, ws.Reason)
	return a
}

// start dispatches a task with the prompt, and returns its run.
func (w *testPlace) start(a fleet.Agent, prompt string) fleet.Run {
	w.t.Helper()
	r := newRun(prompt)
	require.NoError(w.t, w.Connect(a).Dispatch(w.ctx, r))
	return r
}

// startUntil starts a task and follows it until it has printed the text. The run continues afterwards.
func (w *testPlace) startUntil(a fleet.Agent, prompt, text string) fleet.Run {
	w.t.Helper()
	r := w.start(a, prompt)
	w.followUntil(a, r, text)
	return r
}

func newRun(prompt string) fleet.Run {
	return fleet.Run{TaskID: uuid.NewString(), Prompt: prompt, Timeout: waittest.Limit}
}

// follow follows the run to its end, and returns its output as text and its outcome.
func (w *testPlace) follow(a fleet.Agent, r fleet.Run) (string, fleet.Outcome) {
	w.t.Helper()
	outputs, o := w.outputs(a, r, "")
	return outputText(outputs), o
}

// outputs follows the run from the cursor to its end, and returns its outputs and its outcome.
func (w *testPlace) outputs(a fleet.Agent, r fleet.Run, cursor string) ([]fleet.Output, fleet.Outcome) {
	w.t.Helper()
	var outputs []fleet.Output
	o, err := w.Connect(a).Follow(w.ctx, r, cursor, func(out fleet.Output) error {
		outputs = append(outputs, out)
		return nil
	})
	require.NoError(w.t, err)
	return outputs, o
}

// outputText returns the text of the outputs, with steps in angle brackets and without details.
func outputText(outputs []fleet.Output) string {
	var b strings.Builder
	for _, o := range outputs {
		if step := fleet.ParseStep(o.Data); step != nil && step.Type.IsDetail() {
			continue
		}
		if o.IsStep {
			b.WriteString("<" + o.Text + ">\n")
		} else {
			b.WriteString(o.Text)
		}
	}
	return b.String()
}

// runTask runs a task with the prompt to its end, and returns its output as text and its outcome.
func (w *testPlace) runTask(a fleet.Agent, prompt string) (string, fleet.Outcome) {
	w.t.Helper()
	return w.execute(a, newRun(prompt))
}

// execute dispatches the run and follows it to its end. It returns the run's output as text and its outcome.
func (w *testPlace) execute(a fleet.Agent, r fleet.Run) (string, fleet.Outcome) {
	w.t.Helper()
	require.NoError(w.t, w.Connect(a).Dispatch(w.ctx, r))
	return w.follow(a, r)
}

// mustRun runs a task that must complete, and returns its output without leading and trailing space.
func (w *testPlace) mustRun(a fleet.Agent, script string) string {
	w.t.Helper()
	out, o := w.runTask(a, script)
	require.Equal(w.t, fleet.TaskCompleted, o.Status, "%s: %s", o.Reason, out)
	return strings.TrimSpace(out)
}

// interrupt asks the run to end.
func (w *testPlace) interrupt(a fleet.Agent, r fleet.Run) {
	w.t.Helper()
	require.NoError(w.t, w.Connect(a).Interrupt(w.ctx, r, false))
}

// kill ends the run by force.
func (w *testPlace) kill(a fleet.Agent, r fleet.Run) {
	w.t.Helper()
	require.NoError(w.t, w.Connect(a).Interrupt(w.ctx, r, true))
}

// changes returns the changes of the run.
func (w *testPlace) changes(a fleet.Agent, r fleet.Run) *fleet.Changes {
	w.t.Helper()
	c, err := w.Connect(a).Changes(w.ctx, r)
	require.NoError(w.t, err)
	return c
}

// remove deletes the agent, and returns the description of the kept work.
func (w *testPlace) remove(a fleet.Agent) (kept string) {
	w.t.Helper()
	kept, err := w.Delete(w.ctx, a)
	require.NoError(w.t, err)
	return kept
}

// followUntil follows the run until it has printed the text. The run continues afterwards.
func (w *testPlace) followUntil(a fleet.Agent, r fleet.Run, text string) {
	w.t.Helper()
	require.True(w.t, w.followPrints(a, r, text), "the run ended before it printed %q", text)
}

// followPrints follows the run until it has printed the text or ends. It reports whether the run has printed the text.
func (w *testPlace) followPrints(a fleet.Agent, r fleet.Run, text string) (printed bool) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	all := ""
	_, err := w.Connect(a).Follow(ctx, r, "", func(out fleet.Output) error {
		if all += out.Text; strings.Contains(all, text) {
			printed = true
			cancel()
		}
		return nil
	})
	if !printed {
		require.NoError(w.t, err)
		w.t.Logf("the run printed: %s", all)
	}
	return printed
}

// home returns a path in the agent's directory.
func (w *testPlace) home(a fleet.Agent, parts ...string) string {
	return filepath.Join(append([]string{w.dir, "agents", a.UID}, parts...)...)
}

// branchOf returns the name of the branch of an agent with the name papi.
func branchOf(a fleet.Agent) string { return "fleet/papi-" + a.UID[len(a.UID)-8:] }

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

// awaitFile waits until the file exists.
func awaitFile(t *testing.T, path string) {
	t.Helper()
	waittest.Until(t, "nothing signals that a script has created a file", func() bool {
		_, err := os.Stat(path)
		return err == nil
	})
}

// runDir returns a path in the directory of the run.
func (w *testPlace) runDir(a fleet.Agent, r fleet.Run, parts ...string) string {
	return w.home(a, append([]string{"runs", r.TaskID}, parts...)...)
}

// requireReason requires that err has the reason.
func requireReason(t *testing.T, err error, want fleet.Reason, why ...string) {
	t.Helper()
	require.Equal(t, want, fleet.ReasonOf(err), "%v %s", err, why)
}

// requireError requires that err has the reason, and that its text for users contains the words.
func requireError(t *testing.T, err error, want fleet.Reason, words string) {
	t.Helper()
	requireReason(t, err, want)
	require.Contains(t, fleet.PublicMessage(err), words)
}
