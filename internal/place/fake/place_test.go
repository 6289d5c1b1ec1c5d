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
	b := fake.New(c)
	t.Cleanup(b.Destroy)
	return b
}

func ready(t *testing.T, c fake.Config) *fake.Place {
	b := world(t, c)
	_, err := b.Provision(t.Context(), papi)
	require.NoError(t, err)
	return b
}

func follow(t *testing.T, b *fake.Place, r fleet.Run) ([]fleet.Output, fleet.Outcome) {
	t.Helper()
	var outputs []fleet.Output
	o, err := b.Connect(papi).Follow(t.Context(), r, "", func(out fleet.Output) error {
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
			b := ready(t, fake.Config{})
			r := run(tt.prompt)
			require.NoError(t, b.Connect(papi).Dispatch(t.Context(), r))
			outputs, o := follow(t, b, r)
			var texts []string
			for _, out := range outputs {
				texts = append(texts, out.Text)
			}
			require.Equal(t, tt.texts, texts)
			require.Equal(t, tt.want, o)
			require.Equal(t, 1, b.Deliveries(r.TaskID))
		})
	}
}

func TestTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := ready(t, fake.Config{BuildTime: time.Minute})
		r := run("work 2h")
		require.Equal(t, fleet.ReasonAgentOffline, fleet.ReasonOf(b.Connect(papi).Dispatch(t.Context(), r)))
		time.Sleep(time.Minute)
		require.NoError(t, b.Connect(papi).Dispatch(t.Context(), r))
		began := time.Now()
		_, o := follow(t, b, r)
		require.Equal(t, time.Hour, time.Since(began))
		require.Equal(t, fleet.Outcome{Status: fleet.TaskFailed, Reason: "it took longer than its time limit of 1h0m0s"}, o)
		require.Equal(t, 1, b.Deliveries(r.TaskID))
		require.Equal(t, 2, b.Dispatches(r.TaskID))
	})
}

func TestGateOfScript(t *testing.T) {
	t.Parallel()
	b := ready(t, fake.Config{})
	r := run("wait door\ndone through")
	require.NoError(t, b.Connect(papi).Dispatch(t.Context(), r))
	<-b.Reached("door")
	require.NoError(t, b.Close())
	b.Release("door")
	<-b.Ended(r.TaskID)
	_, o := follow(t, b, r)
	require.Equal(t, "through", o.Summary)
}

func TestHeldRuns(t *testing.T) {
	t.Parallel()
	b := ready(t, fake.Config{})
	gate := b.HoldRuns()
	first := run("Fix the login")
	require.NoError(t, b.Connect(papi).Dispatch(t.Context(), first))
	<-gate.Arrived()
	require.NoError(t, b.Connect(papi).Interrupt(t.Context(), first, false))
	_, o := follow(t, b, first)
	require.Equal(t, fleet.TaskStopped, o.Status)

	second := fleet.Run{TaskID: "task-2", Prompt: "Fix the login"}
	require.NoError(t, b.Connect(papi).Dispatch(t.Context(), second))
	gate.Open()
	_, o = follow(t, b, second)
	require.Equal(t, "Handled: Fix the login", o.Summary)
}

func TestSurvivesKill(t *testing.T) {
	t.Parallel()
	b := ready(t, fake.Config{})
	r := run("wait for-ever\nignore-kill")
	require.NoError(t, b.Connect(papi).Dispatch(t.Context(), r))
	require.NoError(t, b.Connect(papi).Interrupt(t.Context(), r, false))
	require.NoError(t, b.Connect(papi).Interrupt(t.Context(), r, true))
	require.NoError(t, b.Stop(t.Context(), papi))
	outputs, o := follow(t, b, r)
	require.Len(t, outputs, 2)
	require.Equal(t, fleet.Outcome{Status: fleet.TaskStopped, Reason: "its workspace was stopped while it worked"}, o)
}

func TestBuilds(t *testing.T) {
	t.Parallel()
	state := func(b *fake.Place) fleet.State {
		w, err := b.Inspect(t.Context(), papi)
		require.NoError(t, err)
		return w.State
	}

	b := ready(t, fake.Config{BuildLooks: 2})
	require.Equal(t, []fleet.State{fleet.StateStarting, fleet.StateStarting, fleet.StateRunning}, []fleet.State{state(b), state(b), state(b)})

	b = world(t, fake.Config{})
	gate := b.HoldBuilds()
	b.FailBuild("PAPI", "no disk left")
	_, err := b.Provision(t.Context(), papi)
	require.NoError(t, err)
	require.Equal(t, fleet.StateStarting, state(b))
	gate.Open()
	w, err := b.Inspect(t.Context(), papi)
	require.NoError(t, err)
	require.Equal(t, fleet.StateFailed, w.State)
	require.Equal(t, "no disk left", w.Reason)

	manager := papi
	manager.Role, manager.Next.Role = "manager", true
	require.NoError(t, b.Start(t.Context(), manager))
	w, _ = b.Workspace("papi")
	require.Equal(t, fleet.StateRunning, w.State)
	require.Equal(t, "manager", w.Role)
}

func TestFaults(t *testing.T) {
	t.Parallel()
	b := world(t, fake.Config{})
	b.Fail(fake.Provision, 1, nil)
	_, err := b.Provision(t.Context(), papi)
	require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(err))
	require.Empty(t, b.Workspaces())

	lost := errors.New("lost")
	b.FailAfter(fake.Provision, 1, lost)
	_, err = b.Provision(t.Context(), papi)
	require.ErrorIs(t, err, lost)
	require.Len(t, b.Workspaces(), 1)
	_, err = b.Provision(t.Context(), papi)
	require.NoError(t, err)
	require.Len(t, b.Workspaces(), 1)
	require.Equal(t, 3, b.Calls(fake.Provision))

	// The server crashes after the dispatch, before it receives the result.
	ctx, die := context.WithCancel(t.Context())
	gate := b.HoldAfter(fake.Dispatch)
	errs := make(chan error)
	r := run("wait door")
	go func() { errs <- b.Connect(papi).Dispatch(ctx, r) }()
	<-gate.Arrived()
	require.Equal(t, 1, b.Deliveries(r.TaskID))
	require.ErrorContains(t, b.Stop(t.Context(), fleet.Agent{UID: "nobody", Name: "nobody"}), "is gone")
	require.Empty(t, b.Overlaps())
	require.NoError(t, b.Stop(t.Context(), papi))
	require.Equal(t, []string{"Stop of agent papi during Dispatch"}, b.Overlaps())
	die()
	require.ErrorIs(t, <-errs, context.Canceled)
	gate.Open()
	require.NoError(t, b.Connect(papi).Dispatch(t.Context(), r))
	require.Equal(t, 1, b.Deliveries(r.TaskID))
	require.Equal(t, 2, b.Dispatches(r.TaskID))

	// The server crashes before the call has an effect.
	ctx, die = context.WithCancel(t.Context())
	gate = b.Hold(fake.Start)
	go func() { errs <- b.Start(ctx, papi) }()
	<-gate.Arrived()
	die()
	require.ErrorIs(t, <-errs, context.Canceled)
	w, _ := b.Workspace("papi")
	require.Equal(t, fleet.StateStopped, w.State)
}

func TestHooks(t *testing.T) {
	t.Parallel()
	var seen []fake.Method
	no := errors.New("no")
	b := ready(t, fake.Config{
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
	require.ErrorIs(t, b.Connect(papi).Interrupt(t.Context(), run(""), true), no)
	_, err := b.Delete(t.Context(), papi)
	require.ErrorIs(t, err, no)
	require.Empty(t, b.Workspaces())
	require.Equal(t, []fake.Method{fake.Provision, fake.Interrupt, fake.Delete}, seen)
}

func TestDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := world(t, fake.Config{})
		b.Delay(fake.List, time.Second)
		began := time.Now()
		_, err := b.List(t.Context())
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(began))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err = b.List(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestExternalChanges(t *testing.T) {
	t.Parallel()
	b := ready(t, fake.Config{})
	r := run("wait door")
	require.NoError(t, b.Connect(papi).Dispatch(t.Context(), r))

	b.MakeUnhealthy("papi", "no heartbeat")
	w, _ := b.Workspace("papi")
	require.Equal(t, fleet.StateUnhealthy, w.State)
	require.Equal(t, fleet.ReasonAgentOffline, fleet.ReasonOf(b.Connect(papi).Dispatch(t.Context(), fleet.Run{TaskID: "task-2"})))
	b.MakeHealthy("Papi")

	b.SetMetadata(w.ID, "k", "v")
	b.SetKept("uid-papi", "branch papi")
	w, _ = b.Workspace("papi")
	require.Equal(t, map[string]string{"fleet_mcp_agent_spec": "Fix things.", "k": "v"}, w.Metadata)
	b.SetMetadata("papi", "k", "")

	b.StopWorkspace("papi")
	_, o := follow(t, b, r)
	require.Equal(t, fleet.TaskFailed, o.Status)
	b.StartWorkspace("papi")

	r2 := fleet.Run{TaskID: "task-2", Prompt: "wait door"}
	require.NoError(t, b.Connect(papi).Dispatch(t.Context(), r2))
	require.True(t, b.CrashRun("task-2"))
	require.False(t, b.CrashRun("task-2"))
	require.False(t, b.CrashRun("task-3"))
	require.Nil(t, b.Ended("task-3"))

	b.AppendLog("papi", "last words")
	lines, more, err := b.Log(t.Context(), papi, 1)
	require.NoError(t, err)
	require.True(t, more)
	require.Equal(t, []string{"last words"}, lines)

	kept, err := b.Delete(t.Context(), papi)
	require.NoError(t, err)
	require.Equal(t, "branch papi", kept)
	_, ok := b.Workspace("papi")
	require.False(t, ok)
	require.Panics(t, func() { b.DeleteWorkspace("papi") })
	_, _, err = b.Log(t.Context(), papi, 1)
	require.ErrorContains(t, err, "is gone")

	found, err := b.Kept(t.Context(), "uid-papi")
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.NoError(t, b.Start(t.Context(), papi), "a kept workspace is restored")
	require.ErrorContains(t, b.Start(t.Context(), fleet.Agent{UID: "uid-nobody"}), "is gone")
}

func TestAdoption(t *testing.T) {
	t.Parallel()
	b := world(t, fake.Config{
		Traits:     fleet.Traits{Adopts: true, UniqueNames: true},
		Workspaces: []fleet.Workspace{{Name: "Carl", Owner: "bob", Project: "DataOne", Role: "operator"}},
	})
	require.Equal(t, fleet.Traits{Name: "fake", Adopts: true, UniqueNames: true, Asks: true, Versions: true}, b.Traits())
	all, err := b.List(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, fleet.StateRunning, all[0].State)

	carl := fleet.Agent{UID: "uid-carl", Name: "Carl", Owner: "bob", WorkspaceID: all[0].ID}
	r := run("done by carl")
	require.NoError(t, b.Connect(carl).Dispatch(t.Context(), r))
	<-b.Ended(r.TaskID)

	_, err = b.Provision(t.Context(), fleet.Agent{UID: "other", Name: "carl", Owner: "alice", Project: "Setup"})
	require.Equal(t, fleet.ReasonAgentExists, fleet.ReasonOf(err))
	b.DeleteWorkspace("carl")
	w, err := b.Inspect(t.Context(), carl)
	require.NoError(t, err)
	require.Equal(t, fleet.StateDeleted, w.State)
}

func TestProjects(t *testing.T) {
	t.Parallel()
	b := world(t, fake.Config{})
	projects, err := b.Projects(t.Context())
	require.NoError(t, err)
	require.Equal(t, []fleet.Project{fake.DefaultProjects()[0].Project, fake.DefaultProjects()[1].Project}, projects)
	_, err = b.Roles(t.Context(), "setup")
	require.EqualError(t, err, `there is no project "setup": choose one of "DataOne", "Setup"`)

	b.SetProjects(fake.Project{Project: fleet.Project{Name: "One"}, Roles: []fleet.Role{{Name: "only", Default: true}}})
	roles, err := b.Roles(t.Context(), "One")
	require.NoError(t, err)
	require.Equal(t, []fleet.Role{{Name: "only", Default: true}}, roles)
	b.SetProjects()
	projects, err = b.Projects(t.Context())
	require.NoError(t, err)
	require.Empty(t, projects)
}

func TestSend(t *testing.T) {
	t.Parallel()
	b := ready(t, fake.Config{NoMessages: true})
	require.Equal(t, fleet.ReasonUnimplemented, fleet.ReasonOf(b.Connect(papi).Send(t.Context(), run(""), "m1", "hi")))

	b = ready(t, fake.Config{})
	r := run("wait door\nlisten\nlisten")
	require.NoError(t, b.Connect(papi).Dispatch(t.Context(), r))
	for _, id := range []string{"m1", "m2", "m1"} {
		require.NoError(t, b.Connect(papi).Send(t.Context(), r, id, "hi "+id))
	}
	require.Equal(t, []string{"hi m1", "hi m2"}, b.Messages(r.TaskID))
	b.Release("door")
	outputs, _ := follow(t, b, r)
	require.Len(t, outputs, 2)
	require.Nil(t, b.Messages("task-2"))
}
