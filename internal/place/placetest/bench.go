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
)

// bench is a backend with a case on it.
type bench struct {
	*testing.T
	*require.Assertions
	h   Harness
	b   fleet.Place
	ctx context.Context

	mu     sync.Mutex
	agents []fleet.Agent // to be deleted at the end
}

func newBench(t *testing.T, h Harness) *bench {
	ctx, cancel := context.WithCancel(context.Background())
	x := &bench{T: t, Assertions: require.New(t), h: h, ctx: ctx, b: h.New(t)}
	t.Cleanup(func() {
		defer cancel()
		end, stop := context.WithTimeout(ctx, h.Patience)
		defer stop()
		for _, a := range x.agents {
			if _, err := x.b.Delete(end, a); err != nil {
				t.Errorf("delete agent %s at the end: %v", a.Name, err)
			}
		}
		if err := x.b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return x
}

// agent returns an agent that has no workspace yet, and has it deleted at the end.
func (x *bench) agent() fleet.Agent { return x.agentOf(x.h.Project, x.h.Role, "Do as the tests say.") }

func (x *bench) agentOf(project, role, spec string) fleet.Agent {
	uid := uuid.NewString()
	a := fleet.Agent{
		UID: uid, Name: "t-" + uid[:8], Owner: x.h.Owner, Project: project, Role: role,
		Spec: spec, State: fleet.StatePending, Desired: fleet.DesiredRunning,
	}
	if x.h.OfRecipe != nil {
		a.Project, a.Role, a.Recipe = "", "", x.h.OfRecipe
	}
	x.own(a)
	return a
}

func (x *bench) own(a fleet.Agent) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.agents = append(x.agents, a)
}

// ready returns an agent whose workspace runs.
func (x *bench) ready() fleet.Agent {
	x.Helper()
	return x.provisioned(x.agent())
}

// readyIn returns an agent of the project whose workspace runs.
func (x *bench) readyIn(project string) fleet.Agent {
	x.Helper()
	return x.provisioned(x.agentOf(project, x.h.Role, "Do as the tests say."))
}

func (x *bench) provisioned(a fleet.Agent) fleet.Agent {
	x.Helper()
	w, err := x.b.Provision(x.ctx, a)
	x.NoError(err)
	a.WorkspaceID, a.Location = w.ID, w.Location
	x.await(a, fleet.StateRunning)
	return a
}

// await waits until the agent's workspace is in the state, and returns it.
func (x *bench) await(a fleet.Agent, want fleet.State) fleet.Workspace {
	x.Helper()
	deadline := time.After(x.h.Patience)
	tick := time.NewTicker(10 * time.Millisecond) // the port has no signal for this
	defer tick.Stop()
	for {
		w, err := x.b.Inspect(x.ctx, a)
		x.NoError(err)
		if w.State == want {
			return w
		}
		x.True(w.State.Moving(), "the workspace of %s is %s (%s) and moves no more, want %s", a.Name, w.State, w.Reason, want)
		select {
		case <-tick.C:
		case <-deadline:
			x.FailNow("stuck", "the workspace of %s is %s (%s), want %s", a.Name, w.State, w.Reason, want)
		}
	}
}

// listed returns the agent's workspaces that List shows.
func (x *bench) listed(a fleet.Agent) []fleet.Workspace {
	x.Helper()
	all, err := x.b.List(x.ctx)
	x.NoError(err)
	var his []fleet.Workspace
	for _, w := range all {
		if w.State != fleet.StateDeleted && (w.AgentUID == a.UID || w.AgentUID == "" && a.WorkspaceID != "" && w.ID == a.WorkspaceID) {
			his = append(his, w)
		}
	}
	return his
}

// run returns a run that was not dispatched yet.
func (x *bench) run(p Prompt) fleet.Run {
	return fleet.Run{TaskID: uuid.NewString(), Prompt: p.Text, Timeout: time.Hour, Started: time.Now()}
}

// dispatch gives the agent a run.
func (x *bench) dispatch(a fleet.Agent, p Prompt) fleet.Run {
	x.Helper()
	r := x.run(p)
	x.NoError(x.b.Connect(a).Dispatch(x.ctx, r))
	return r
}

// working gives the agent a run and waits until it has put out its first line.
func (x *bench) working(a fleet.Agent, p Prompt) (fleet.Run, *following) {
	x.Helper()
	r := x.dispatch(a, p)
	f := x.follow(x.ctx, a, r, "")
	f.until(p.Lines[0])
	return r, f
}

// stopped ends a run that is under way, and wants it to say so.
func (x *bench) stopped(a fleet.Agent, r fleet.Run, f *following) fleet.Outcome {
	x.Helper()
	x.NoError(x.b.Connect(a).Interrupt(x.ctx, r, false))
	_, o, err := f.end()
	x.NoError(err)
	x.Equal(fleet.TaskStopped, o.Status, "outcome: %+v", o)
	return o
}

// whole follows the run from its beginning to its end.
func (x *bench) whole(a fleet.Agent, r fleet.Run) ([]fleet.Output, fleet.Outcome) {
	x.Helper()
	outputs, o, err := x.follow(x.ctx, a, r, "").end()
	x.NoError(err)
	return outputs, o
}

// completes wants that the run says what the prompt promises, each line once and in order, and completes.
func (x *bench) completes(a fleet.Agent, r fleet.Run, p Prompt) ([]fleet.Output, fleet.Outcome) {
	x.Helper()
	outputs, o := x.whole(a, r)
	x.Equal(fleet.TaskCompleted, o.Status, "outcome: %+v", o)
	if p.Summary != "" {
		x.Equal(p.Summary, o.Summary)
	}
	x.says(outputs, p.Lines...)
	return outputs, o
}

// says wants each of the lines once among the outputs, in order.
func (x *bench) says(outputs []fleet.Output, lines ...string) {
	x.Helper()
	all := text(outputs)
	rest := all
	for _, line := range lines {
		x.Equal(1, strings.Count(all, line), "how often the run says %q; it says:\n%s", line, all)
		i := strings.Index(rest, line)
		x.GreaterOrEqual(i, 0, "the run says %q out of order; it says:\n%s", line, all)
		rest = rest[i+len(line):]
	}
	for i, out := range outputs {
		x.NotEmpty(out.Cursor, "output %d has no cursor", i)
	}
}

// failed wants an outcome that keeps the rules of failed ones.
func (x *bench) failed(o fleet.Outcome) {
	x.Helper()
	x.Equal(fleet.TaskFailed, o.Status, "outcome: %+v", o)
	x.NotEmpty(o.Reason, "a failed run has a reason")
}

// reason wants err to be an error of the core, with one of the reasons.
func (x *bench) reason(err error, want ...fleet.Reason) {
	x.Helper()
	x.Error(err)
	e, ok := errors.AsType[*fleet.Error](err)
	x.True(ok, "%T (%v) is not a *fleet.Error", err, err)
	x.Contains(want, e.Reason, "error: %v", err)
	x.NotEmpty(e.Message)
}

// optional wants err to be that of a method which the place's traits do not promise. Nobody calls it, so it may also work.
func (x *bench) optional(err error) {
	x.Helper()
	if err != nil {
		x.reason(err, fleet.ReasonUnimplemented)
	}
}

// reopen replaces the backend by another one over the same world, and skips the case where there can be none.
func (x *bench) reopen() {
	x.Helper()
	if x.h.Reopen == nil {
		x.Skip("the backend cannot be had twice")
	}
	x.NoError(x.b.Close())
	x.b = x.h.Reopen(x.T, x.b)
}

// need skips the case when the harness has no such prompt.
func (x *bench) need(p Prompt, what string) {
	x.Helper()
	if p.Text == "" {
		x.Skip("not supported: " + what)
	}
}

// text is what the outputs say, however they are cut into pieces at ends of lines.
func text(outputs []fleet.Output) string {
	var s strings.Builder
	for _, out := range outputs {
		s.WriteString(strings.TrimSuffix(out.Text, "\n"))
		s.WriteByte('\n')
	}
	return s.String()
}
