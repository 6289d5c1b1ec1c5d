package fake_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
)

var papi = fleet.Agent{UID: "uid-papi", Name: "papi", Owner: "alice", Project: "Setup", Role: "coder", Spec: "Fix things."}

func world(t *testing.T, c fake.Config) *fake.Place {
	p := fake.New(c)
	t.Cleanup(p.Destroy)
	return p
}

func ready(t *testing.T, c fake.Config) *fake.Place {
	p := world(t, c)
	_, err := p.Provision(t.Context(), papi)
	require.NoError(t, err)
	return p
}

func follow(t *testing.T, p *fake.Place, r fleet.Run) ([]fleet.Output, fleet.Outcome) {
	t.Helper()
	var outputs []fleet.Output
	o, err := p.Connect(papi).Follow(t.Context(), r, "", func(out fleet.Output) error {
		outputs = append(outputs, out)
		return nil
	})
	require.NoError(t, err)
	return outputs, o
}

func run(prompt string) fleet.Run {
	return fleet.Run{TaskID: "task-1", Prompt: prompt, Timeout: time.Hour}
}

func TestScript(t *testing.T) {
	t.Parallel()
	three := 3
	zero := 0
	tests := []struct {
		name, prompt string
		texts        []string
		want         fleet.Outcome
	}{
		{"plain words", "Fix the login\nwork hard", nil, fleet.Outcome{Status: fleet.TaskCompleted, Summary: "Handled: Fix the login"}},
		{"nothing said at the end", "\n echo hello \n\nstep looks", []string{"hello", "looks"}, fleet.Outcome{Status: fleet.TaskCompleted, Summary: "Handled: echo hello"}},
		{"done", "echo a\ndone all well\necho b", []string{"a"}, fleet.Outcome{Status: fleet.TaskCompleted, Summary: "all well"}},
		{"fail", "fail no compiler", nil, fleet.Outcome{Status: fleet.TaskFailed, Reason: "no compiler"}},
		{"fail without a reason", "fail", nil, fleet.Outcome{Status: fleet.TaskFailed, Reason: "the agent gave up"}},
		{"crash", "crash", nil, fleet.Outcome{Status: fleet.TaskFailed, Reason: "the agent's process died"}},
		{"exit", "exit 3", nil, fleet.Outcome{Status: fleet.TaskFailed, Reason: "the agent ended with exit code 3", ExitCode: &three}},
		{"exit well", "exit 0", nil, fleet.Outcome{Status: fleet.TaskCompleted, Summary: "Handled: exit 0", ExitCode: &zero}},
		{"payload and cost", "payload x: 1\npayload y: 2\ncost 0.25 4\ndone ok", nil, fleet.Outcome{Status: fleet.TaskCompleted, Summary: "ok", Payload: []byte("x: 1\ny: 2"), CostUSD: 0.25, Turns: 4}},
		{"repeat", "repeat 2 line\ndone ok", []string{"line 1", "line 2"}, fleet.Outcome{Status: fleet.TaskCompleted, Summary: "ok"}},
		{"words that only look like a script", "crash course in Go", nil, fleet.Outcome{Status: fleet.TaskCompleted, Summary: "Handled: crash course in Go"}},
		{"empty", "", nil, fleet.Outcome{Status: fleet.TaskCompleted, Summary: "Handled: "}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := ready(t, fake.Config{})
			r := run(tt.prompt)
			require.NoError(t, p.Connect(papi).Dispatch(t.Context(), r))
			outputs, o := follow(t, p, r)
			var texts []string
			for _, out := range outputs {
				texts = append(texts, out.Text)
			}
			require.Equal(t, tt.texts, texts)
			require.Equal(t, tt.want, o)
			require.Equal(t, 1, p.Deliveries(r.TaskID))
		})
	}
}

func TestTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := ready(t, fake.Config{BuildTime: time.Minute})
		r := run("work 2h")
		require.Equal(t, fleet.ReasonAgentOffline, fleet.ReasonOf(p.Connect(papi).Dispatch(t.Context(), r)))
		time.Sleep(time.Minute)
		require.NoError(t, p.Connect(papi).Dispatch(t.Context(), r))
		began := time.Now()
		_, o := follow(t, p, r)
		require.Equal(t, time.Hour, time.Since(began))
		require.Equal(t, fleet.Outcome{Status: fleet.TaskFailed, Reason: "it took longer than its time limit of 1h0m0s"}, o)
		require.Equal(t, 1, p.Deliveries(r.TaskID))
		require.Equal(t, 2, p.Dispatches(r.TaskID))
	})
}

func TestGateOfScript(t *testing.T) {
	t.Parallel()
	p := ready(t, fake.Config{})
	r := run("wait door\ndone through")
	require.NoError(t, p.Connect(papi).Dispatch(t.Context(), r))
	<-p.Reached("door")
	require.NoError(t, p.Close())
	p.Release("door")
	<-p.Ended(r.TaskID)
	_, o := follow(t, p, r)
	require.Equal(t, "through", o.Summary)
}

func TestHeldRuns(t *testing.T) {
	t.Parallel()
	p := ready(t, fake.Config{})
	gate := p.HoldRuns()
	first := run("Fix the login")
	require.NoError(t, p.Connect(papi).Dispatch(t.Context(), first))
	<-gate.Arrived()
	require.NoError(t, p.Connect(papi).Interrupt(t.Context(), first, false))
	_, o := follow(t, p, first)
	require.Equal(t, fleet.TaskStopped, o.Status)

	second := fleet.Run{TaskID: "task-2", Prompt: "Fix the login"}
	require.NoError(t, p.Connect(papi).Dispatch(t.Context(), second))
	gate.Open()
	_, o = follow(t, p, second)
	require.Equal(t, "Handled: Fix the login", o.Summary)
}

func TestSurvivesKill(t *testing.T) {
	t.Parallel()
	p := ready(t, fake.Config{})
	r := run("wait for-ever\nignore-kill")
	require.NoError(t, p.Connect(papi).Dispatch(t.Context(), r))
	require.NoError(t, p.Connect(papi).Interrupt(t.Context(), r, false))
	require.NoError(t, p.Connect(papi).Interrupt(t.Context(), r, true))
	require.NoError(t, p.Stop(t.Context(), papi))
	outputs, o := follow(t, p, r)
	require.Len(t, outputs, 2)
	require.Equal(t, fleet.Outcome{Status: fleet.TaskStopped, Reason: "its workspace was stopped while it worked"}, o)
}

func TestBuilds(t *testing.T) {
	t.Parallel()
	state := func(p *fake.Place) fleet.State {
		w, err := p.Inspect(t.Context(), papi)
		require.NoError(t, err)
		return w.State
	}

	p := ready(t, fake.Config{BuildLooks: 2})
	require.Equal(t, []fleet.State{fleet.StateStarting, fleet.StateStarting, fleet.StateRunning}, []fleet.State{state(p), state(p), state(p)})

	p = world(t, fake.Config{})
	gate := p.HoldBuilds()
	p.FailBuild("PAPI", "no disk left")
	_, err := p.Provision(t.Context(), papi)
	require.NoError(t, err)
	require.Equal(t, fleet.StateStarting, state(p))
	gate.Open()
	w, err := p.Inspect(t.Context(), papi)
	require.NoError(t, err)
	require.Equal(t, fleet.StateFailed, w.State)
	require.Equal(t, "no disk left", w.Reason)

	manager := papi
	manager.Role, manager.Next.Role = "manager", true
	require.NoError(t, p.Start(t.Context(), manager))
	w, _ = p.Workspace("papi")
	require.Equal(t, fleet.StateRunning, w.State)
	require.Equal(t, "manager", w.Role)
}

func TestFaults(t *testing.T) {
	t.Parallel()
	p := world(t, fake.Config{})
	p.Fail(fake.Provision, 1, nil)
	_, err := p.Provision(t.Context(), papi)
	require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(err))
	require.Empty(t, p.Workspaces())

	lost := errors.New("lost")
	p.FailAfter(fake.Provision, 1, lost)
	_, err = p.Provision(t.Context(), papi)
	require.ErrorIs(t, err, lost)
	require.Len(t, p.Workspaces(), 1)
	_, err = p.Provision(t.Context(), papi)
	require.NoError(t, err)
	require.Len(t, p.Workspaces(), 1)
	require.Equal(t, 3, p.Calls(fake.Provision))

	// The server crashes after the dispatch, before it receives the result.
	ctx, die := context.WithCancel(t.Context())
	gate := p.HoldAfter(fake.Dispatch)
	errs := make(chan error)
	r := run("wait door")
	go func() { errs <- p.Connect(papi).Dispatch(ctx, r) }()
	<-gate.Arrived()
	require.Equal(t, 1, p.Deliveries(r.TaskID))
	require.ErrorContains(t, p.Stop(t.Context(), fleet.Agent{UID: "nobody", Name: "nobody"}), "is gone")
	require.Empty(t, p.Overlaps())
	require.NoError(t, p.Stop(t.Context(), papi))
	require.Equal(t, []string{"Stop of agent papi during Dispatch"}, p.Overlaps())
	die()
	require.ErrorIs(t, <-errs, context.Canceled)
	gate.Open()
	require.NoError(t, p.Connect(papi).Dispatch(t.Context(), r))
	require.Equal(t, 1, p.Deliveries(r.TaskID))
	require.Equal(t, 2, p.Dispatches(r.TaskID))

	// The server crashes before the call has an effect.
	ctx, die = context.WithCancel(t.Context())
	gate = p.Hold(fake.Start)
	go func() { errs <- p.Start(ctx, papi) }()
	<-gate.Arrived()
	die()
	require.ErrorIs(t, <-errs, context.Canceled)
	w, _ := p.Workspace("papi")
	require.Equal(t, fleet.StateStopped, w.State)
}

func TestHooks(t *testing.T) {
	t.Parallel()
	var seen []fake.Method
	no := errors.New("no")
	p := ready(t, fake.Config{
		Before: func(_ context.Context, c fake.Call) error {
			seen = append(seen, c.Method)
			if c.Method == fake.Interrupt && c.Kill && c.TaskID == "task-1" && c.Agent.Name == "papi" {
				return no
			}
			return nil
		},
		After: func(_ context.Context, c fake.Call) error {
			if c.Method == fake.Delete {
				return no
			}
			return nil
		},
	})
	require.ErrorIs(t, p.Connect(papi).Interrupt(t.Context(), run(""), true), no)
	_, err := p.Delete(t.Context(), papi)
	require.ErrorIs(t, err, no)
	require.Empty(t, p.Workspaces())
	require.Equal(t, []fake.Method{fake.Provision, fake.Interrupt, fake.Delete}, seen)
}

func TestDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := world(t, fake.Config{})
		p.Delay(fake.List, time.Second)
		began := time.Now()
		_, err := p.List(t.Context())
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(began))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err = p.List(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestExternalChanges(t *testing.T) {
	t.Parallel()
	p := ready(t, fake.Config{})
	r := run("wait door")
	require.NoError(t, p.Connect(papi).Dispatch(t.Context(), r))

	p.MakeUnhealthy("papi", "no heartbeat")
	w, _ := p.Workspace("papi")
	require.Equal(t, fleet.StateUnhealthy, w.State)
	require.Equal(t, fleet.ReasonAgentOffline, fleet.ReasonOf(p.Connect(papi).Dispatch(t.Context(), fleet.Run{TaskID: "task-2"})))
	p.MakeHealthy("Papi")

	p.SetMetadata(w.ID, "k", "v")
	p.SetKept("uid-papi", "branch papi")
	w, _ = p.Workspace("papi")
	require.Equal(t, map[string]string{"fleet_mcp_agent_spec": "Fix things.", "k": "v"}, w.Metadata)
	p.SetMetadata("papi", "k", "")

	p.StopWorkspace("papi")
	_, o := follow(t, p, r)
	require.Equal(t, fleet.TaskFailed, o.Status)
	p.StartWorkspace("papi")

	r2 := fleet.Run{TaskID: "task-2", Prompt: "wait door"}
	require.NoError(t, p.Connect(papi).Dispatch(t.Context(), r2))
	require.True(t, p.CrashRun("task-2"))
	require.False(t, p.CrashRun("task-2"))
	require.False(t, p.CrashRun("task-3"))
	require.Nil(t, p.Ended("task-3"))

	p.AppendLog("papi", "last words")
	lines, more, err := p.Log(t.Context(), papi, 1)
	require.NoError(t, err)
	require.True(t, more)
	require.Equal(t, []string{"last words"}, lines)

	kept, err := p.Delete(t.Context(), papi)
	require.NoError(t, err)
	require.Equal(t, "branch papi", kept)
	_, ok := p.Workspace("papi")
	require.False(t, ok)
	require.Panics(t, func() { p.DeleteWorkspace("papi") })
	_, _, err = p.Log(t.Context(), papi, 1)
	require.ErrorContains(t, err, "is gone")

	found, err := p.Kept(t.Context(), "uid-papi")
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.NoError(t, p.Start(t.Context(), papi), "a kept workspace is restored")
	require.ErrorContains(t, p.Start(t.Context(), fleet.Agent{UID: "uid-nobody"}), "is gone")
}

func TestAdoption(t *testing.T) {
	t.Parallel()
	p := world(t, fake.Config{
		Traits:     fleet.Traits{Adopts: true, UniqueNames: true},
		Workspaces: []fleet.Workspace{{Name: "Carl", Owner: "bob", Project: "DataOne", Role: "operator"}},
	})
	require.Equal(t, fleet.Traits{Name: "fake", Adopts: true, UniqueNames: true, Asks: true, Versions: true}, p.Traits())
	all, err := p.List(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, fleet.StateRunning, all[0].State)

	carl := fleet.Agent{UID: "uid-carl", Name: "Carl", Owner: "bob", WorkspaceID: all[0].ID}
	r := run("done by carl")
	require.NoError(t, p.Connect(carl).Dispatch(t.Context(), r))
	<-p.Ended(r.TaskID)

	_, err = p.Provision(t.Context(), fleet.Agent{UID: "other", Name: "carl", Owner: "alice", Project: "Setup"})
	require.Equal(t, fleet.ReasonAgentExists, fleet.ReasonOf(err))
	p.DeleteWorkspace("carl")
	w, err := p.Inspect(t.Context(), carl)
	require.NoError(t, err)
	require.Equal(t, fleet.StateDeleted, w.State)
}

func TestProjects(t *testing.T) {
	t.Parallel()
	p := world(t, fake.Config{})
	projects, err := p.Projects(t.Context())
	require.NoError(t, err)
	require.Equal(t, []fleet.Project{fake.DefaultProjects()[0].Project, fake.DefaultProjects()[1].Project}, projects)
	_, err = p.Roles(t.Context(), "setup")
	require.EqualError(t, err, `there is no project "setup": choose one of "DataOne", "Setup"`)

	p.SetProjects(fake.Project{Project: fleet.Project{Name: "One"}, Roles: []fleet.Role{{Name: "only", Default: true}}})
	roles, err := p.Roles(t.Context(), "One")
	require.NoError(t, err)
	require.Equal(t, []fleet.Role{{Name: "only", Default: true}}, roles)
	p.SetProjects()
	projects, err = p.Projects(t.Context())
	require.NoError(t, err)
	require.Empty(t, projects)
}

func TestSend(t *testing.T) {
	t.Parallel()
	p := ready(t, fake.Config{NoMessages: true})
	require.Equal(t, fleet.ReasonUnimplemented, fleet.ReasonOf(p.Connect(papi).Send(t.Context(), run(""), "m1", "hi")))

	p = ready(t, fake.Config{})
	r := run("wait door\nlisten\nlisten")
	require.NoError(t, p.Connect(papi).Dispatch(t.Context(), r))
	for _, id := range []string{"m1", "m2", "m1"} {
		require.NoError(t, p.Connect(papi).Send(t.Context(), r, id, "hi "+id))
	}
	require.Equal(t, []string{"hi m1", "hi m2"}, p.Messages(r.TaskID))
	p.Release("door")
	outputs, _ := follow(t, p, r)
	require.Len(t, outputs, 2)
	require.Nil(t, p.Messages("task-2"))
}
