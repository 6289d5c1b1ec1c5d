package placetest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/waittest"
)

// fixture has the place for one case, and the agents of the case.
type fixture struct {
	*testing.T
	*require.Assertions
	harness Harness
	place   fleet.Place
	ctx     context.Context

	mu     sync.Mutex
	agents []fleet.Agent // agents to delete at the end of the case
}

func newFixture(t *testing.T, h Harness) *fixture {
	ctx, cancel := context.WithCancel(context.Background())
	x := &fixture{T: t, Assertions: require.New(t), harness: h, ctx: ctx, place: h.New(t)}
	t.Cleanup(func() {
		defer cancel()
		endCtx, cancelEnd := context.WithTimeout(ctx, waittest.Limit)
		defer cancelEnd()
		for _, a := range x.agents {
			if _, err := x.place.Delete(endCtx, a); err != nil {
				t.Errorf("delete agent %s at the end: %v", a.Name, err)
			}
		}
		if err := x.place.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return x
}

// newAgent returns an agent without a workspace. The fixture deletes it at the end of the case.
func (x *fixture) newAgent() fleet.Agent {
	return x.newAgentOf(x.harness.Project, x.harness.Role, "Do as the tests say.")
}

// newAgentOf is like newAgent, for the given project, role and spec. If Harness.AgentConfig is set, that replaces the project and the
// role.
func (x *fixture) newAgentOf(project, role, spec string) fleet.Agent {
	uid := uuid.NewString()
	a := fleet.Agent{
		UID: uid, Name: "t-" + uid[:8], Owner: "alice", Project: project, Role: role,
		Spec: spec, State: fleet.StatePending, Desired: fleet.DesiredRunning,
	}
	if x.harness.AgentConfig != nil {
		a.Project, a.Role, a.Config = "", "", x.harness.AgentConfig
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.agents = append(x.agents, a)
	return a
}

// readyAgent returns an agent with a running workspace.
func (x *fixture) readyAgent() fleet.Agent {
	x.Helper()
	return x.makeReady(x.newAgent())
}

// readyAgentIn returns an agent of the project with a running workspace.
func (x *fixture) readyAgentIn(project string) fleet.Agent {
	x.Helper()
	return x.makeReady(x.newAgentOf(project, x.harness.Role, "Do as the tests say."))
}

func (x *fixture) provision(a fleet.Agent) fleet.Workspace {
	x.Helper()
	w, err := x.place.Provision(x.ctx, a)
	x.NoError(err)
	return w
}

// makeReady provisions the agent, waits until its workspace runs, and returns the agent with its workspace.
func (x *fixture) makeReady(a fleet.Agent) fleet.Agent {
	x.Helper()
	w := x.provision(a)
	a.WorkspaceID, a.Location = w.ID, w.Location
	x.await(a, fleet.StateRunning)
	return a
}

func (x *fixture) start(a fleet.Agent) {
	x.Helper()
	x.NoError(x.place.Start(x.ctx, a))
	x.await(a, fleet.StateRunning)
}

func (x *fixture) stop(a fleet.Agent) {
	x.Helper()
	x.NoError(x.place.Stop(x.ctx, a))
	x.await(a, fleet.StateStopped)
}

func (x *fixture) delete(a fleet.Agent) {
	x.Helper()
	_, err := x.place.Delete(x.ctx, a)
	x.NoError(err)
}

func (x *fixture) inspect(a fleet.Agent) fleet.Workspace {
	x.Helper()
	w, err := x.place.Inspect(x.ctx, a)
	x.NoError(err)
	return w
}

// await waits until the agent's workspace is in the state, and returns the workspace. The test fails if the workspace
// is in another state that does not change by itself.
func (x *fixture) await(a fleet.Agent, want fleet.State) fleet.Workspace {
	x.Helper()
	deadline := time.After(waittest.Limit)
	tick := time.NewTicker(10 * time.Millisecond) // fleet.Place has no signal for a change of state
	defer tick.Stop()
	for {
		w := x.inspect(a)
		if w.State == want {
			return w
		}
		x.True(w.State.Moving(), "the workspace of %s stays in the state %s (%s), want %s", a.Name, w.State, w.Reason, want)
		select {
		case <-tick.C:
		case <-deadline:
			x.FailNow("stuck", "the workspace of %s is %s (%s), want %s", a.Name, w.State, w.Reason, want)
		}
	}
}

// list calls List and returns the agent's workspaces that are not deleted.
func (x *fixture) list(a fleet.Agent) []fleet.Workspace {
	x.Helper()
	all, err := x.place.List(x.ctx)
	x.NoError(err)
	var listed []fleet.Workspace
	for _, w := range all {
		if w.State != fleet.StateDeleted && (w.AgentUID == a.UID || w.AgentUID == "" && a.WorkspaceID != "" && w.ID == a.WorkspaceID) {
			listed = append(listed, w)
		}
	}
	return listed
}

// newRun returns a new run of the prompt, which is not dispatched yet.
func (x *fixture) newRun(p Prompt) fleet.Run {
	return fleet.Run{TaskID: uuid.NewString(), Prompt: p.Text, Timeout: time.Hour, StartedAt: time.Now()}
}

// dispatch dispatches a new run of the prompt to the agent.
func (x *fixture) dispatch(a fleet.Agent, p Prompt) fleet.Run {
	x.Helper()
	r := x.newRun(p)
	x.NoError(x.place.Connect(a).Dispatch(x.ctx, r))
	return r
}

// startWorking dispatches a run of the prompt, and waits for the first of the prompt's lines.
func (x *fixture) startWorking(a fleet.Agent, p Prompt) (fleet.Run, *activeFollow) {
	x.Helper()
	r := x.dispatch(a, p)
	f := x.follow(x.ctx, a, r, "")
	f.waitForLine(p.Lines[0])
	return r, f
}

// followUntil follows the run until its output contains the line, and returns the outputs so far. The run continues.
func (x *fixture) followUntil(a fleet.Agent, r fleet.Run, line string) []fleet.Output {
	x.Helper()
	ctx, cancel := context.WithCancel(x.ctx)
	f := x.follow(ctx, a, r, "")
	f.waitForLine(line)
	cancel()
	outputs, _, err := f.waitForEnd()
	x.ErrorIs(err, context.Canceled)
	return outputs
}

// interruptRun interrupts an active run, which f follows, and requires that the run ends with the status stopped.
func (x *fixture) interruptRun(a fleet.Agent, r fleet.Run, f *activeFollow) fleet.Outcome {
	x.Helper()
	x.interrupt(a, r, false)
	_, o := f.waitForOutcome()
	x.Equal(fleet.TaskStopped, o.Status, "outcome: %+v", o)
	return o
}

// interrupt interrupts the run. It tries again while the run's host does not answer in time, as Fleet does.
func (x *fixture) interrupt(a fleet.Agent, r fleet.Run, kill bool) {
	x.Helper()
	var err error
	waittest.Until(x.T, "the host may be slow", func() bool {
		err = x.place.Connect(a).Interrupt(x.ctx, r, kill)
		return fleet.ReasonOf(err) != fleet.ReasonBackendUnavailable
	})
	x.NoError(err)
}

// followWhole follows the run from its start to its end.
func (x *fixture) followWhole(a fleet.Agent, r fleet.Run) ([]fleet.Output, fleet.Outcome) {
	x.Helper()
	return x.follow(x.ctx, a, r, "").waitForOutcome()
}

// requireCompleted follows the run to its end. It requires that the run completes, with the prompt's summary if there is one, and
// prints each of the prompt's lines once and in order.
func (x *fixture) requireCompleted(a fleet.Agent, r fleet.Run, p Prompt) ([]fleet.Output, fleet.Outcome) {
	x.Helper()
	outputs, o := x.followWhole(a, r)
	x.Equal(fleet.TaskCompleted, o.Status, "outcome: %+v", o)
	if p.Summary != "" {
		x.Equal(p.Summary, o.Summary)
	}
	x.requireLines(outputs, p.Lines...)
	return outputs, o
}

// completeRun runs Prompts.Says to its end.
func (x *fixture) completeRun(a fleet.Agent) fleet.Run {
	x.Helper()
	r := x.dispatch(a, x.harness.Prompts.Says)
	x.requireCompleted(a, r, x.harness.Prompts.Says)
	return r
}

// requireLines requires that the outputs contain each line once and in order, and that each output has a cursor.
func (x *fixture) requireLines(outputs []fleet.Output, lines ...string) {
	x.Helper()
	all := text(outputs)
	rest := all
	for _, line := range lines {
		x.Equal(1, strings.Count(all, line), "the run must print %q once; it prints:\n%s", line, all)
		i := strings.Index(rest, line)
		x.GreaterOrEqual(i, 0, "the run prints %q out of order; it prints:\n%s", line, all)
		rest = rest[i+len(line):]
	}
	for i, out := range outputs {
		x.NotEmpty(out.Cursor, "output %d has no cursor", i)
	}
}

// requireFailed requires that the run has failed and has a reason.
func (x *fixture) requireFailed(o fleet.Outcome) {
	x.Helper()
	x.Equal(fleet.TaskFailed, o.Status, "outcome: %+v", o)
	x.NotEmpty(o.Reason, "a failed run must have a reason")
}

// requireReason requires that err is a *fleet.Error with one of the reasons.
func (x *fixture) requireReason(err error, want ...fleet.Reason) {
	x.Helper()
	x.Error(err)
	e, ok := errors.AsType[*fleet.Error](err)
	x.True(ok, "%T (%v) is not a *fleet.Error", err, err)
	x.Contains(want, e.Reason, "error: %v", err)
	x.NotEmpty(e.Message)
}

// allowUnimplemented checks the error of a method that the place's traits do not promise. The method may also succeed.
func (x *fixture) allowUnimplemented(err error) {
	x.Helper()
	if err != nil {
		x.requireReason(err, fleet.ReasonUnimplemented)
	}
}

// reopen closes the place, and continues with another place that has the same world.
func (x *fixture) reopen() {
	x.Helper()
	x.NoError(x.place.Close())
	x.place = x.harness.Reopen(x.T, x.place)
}

// skipUnlessSet skips the case if the prompt is empty. what names the feature that the prompt tests, for the message.
func (x *fixture) skipUnlessSet(p Prompt, what string) {
	x.Helper()
	if p.Text == "" {
		x.Skip("not supported: " + what)
	}
}

// text joins the outputs. Each ends with one line break, whether the output itself has it or not.
func text(outputs []fleet.Output) string {
	var s strings.Builder
	for _, out := range outputs {
		s.WriteString(strings.TrimSuffix(out.Text, "\n"))
		s.WriteByte('\n')
	}
	return s.String()
}
