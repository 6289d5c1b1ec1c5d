package service_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/state"
	"fleet/internal/waittest"
)

// second is a world beside the fleet's own, whose agents are made by configurations.
func second(t *testing.T, c fake.Config) *fake.Place {
	t.Helper()
	c.Traits.Name, c.Traits.Drivers = "second", []fleet.Driver{{Name: "script"}}
	b := fake.New(c)
	t.Cleanup(b.Destroy)
	return b
}

func onSecond(b *fake.Place) func(*state.Config) {
	return func(c *state.Config) { c.Others = []fleet.Place{b} }
}

func launch(prompt string) service.LaunchRequest {
	return service.LaunchRequest{
		Method: "Test", Toolset: fleet.ToolsetLifecycle, Place: "second", OneTask: true, Prompt: prompt,
		Config: &fleet.AgentConfig{Name: "tester", Driver: "script", Reports: true},
	}
}

// gone waits until the agent is deleted, and returns it.
func (h *harness) gone(uid string) *fleet.AgentView {
	h.t.Helper()
	signal, cancel := h.store.Subscribe()
	defer cancel()
	for {
		views, _, err := h.AgentsByUID(h.ctx(), []string{uid})
		require.NoError(h.t, err)
		if !views[0].DeletedAt.IsZero() {
			return views[0]
		}
		select {
		case <-signal:
		case <-time.After(waittest.Limit):
			require.Fail(h.t, "the agent is not deleted", "%s: %s", views[0].State, views[0].StateReason)
		}
	}
}

func TestLaunchOnAnotherBackend(t *testing.T) {
	t.Parallel()
	b := second(t, fake.Config{})
	h := newHarness(t, fake.Config{}, onSecond(b))
	r := launch("echo one\nstep looks\necho two\npayload all\ndone well")
	r.Place = "" // the one that has the driver
	v, err := h.Launch(h.ctx(), r)
	require.NoError(t, err)
	require.Equal(t, "second", v.Place)
	require.Equal(t, fleet.TaskRunning, v.Task.Status)
	var texts []string
	task, err := h.FollowTask(h.ctx(), v.Task.ID, 0, func(e fleet.Event) error {
		if e.Type == fleet.EventTaskOutput || e.Type == fleet.EventTaskStep {
			texts = append(texts, e.Text)
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []string{"one", "looks", "two"}, texts)
	require.Equal(t, "well", task.Summary)
	payload, err := h.Payload(h.ctx(), task.ID)
	require.NoError(t, err)
	require.Equal(t, "all", string(payload))
	require.Equal(t, fleet.StateDeleted, h.gone(v.UID).State, "its work is done")
	require.Empty(t, b.Workspaces())
	require.Empty(t, h.world.Workspaces())
	_, err = h.FollowTask(as(t.Context(), "bob"), v.Task.ID, 0, nil)
	require.Equal(t, fleet.ReasonTaskNotFound, reason(err))
}

func TestLaunchRefuses(t *testing.T) {
	t.Parallel()
	h := newHarness(t, fake.Config{}, onSecond(second(t, fake.Config{})))
	for want, change := range map[string]func(*service.LaunchRequest){
		`no place "third": there are fake, second`:   func(r *service.LaunchRequest) { r.Place = "third" },
		`no driver "claude": it has script`:          func(r *service.LaunchRequest) { r.Config.Driver = "claude" },
		`no driver "script": it has none`:            func(r *service.LaunchRequest) { r.Place = "fake" },
		`no place of this server has the driver "x"`: func(r *service.LaunchRequest) { r.Place, r.Config.Driver = "", "x" },
		`"Nope"`: func(r *service.LaunchRequest) { r.Config, r.Project = nil, "Nope" },
	} {
		r := launch("x")
		change(&r)
		_, err := h.Launch(h.ctx(), r)
		require.Equal(t, fleet.InvalidArgument, err.(*fleet.Error).Code) //nolint:errorlint // it is one
		require.ErrorContains(t, err, want)
	}
	_, err := h.Launch(t.Context(), launch("x"))
	require.Equal(t, fleet.ReasonUnauthenticated, reason(err))
}

func TestTurns(t *testing.T) {
	t.Parallel()
	h := newHarness(t, fake.Config{}, onSecond(second(t, fake.Config{})))
	r := launch("")
	r.OneTask = false
	v, err := h.Launch(h.ctx(), r)
	require.NoError(t, err)
	require.Nil(t, v.Task)
	turn := service.TurnRequest{Method: "Test", AgentUID: v.UID, Prompt: "wait gate\ndone one", SessionID: "s", RequestID: "r1"}
	first, err := h.Turn(h.ctx(), turn) // also when it is not ready yet
	require.NoError(t, err)
	again, err := h.Turn(h.ctx(), turn)
	require.NoError(t, err)
	require.Equal(t, first.ID, again.ID)
	turn.RequestID = "r2"
	_, err = h.Turn(h.ctx(), turn)
	require.Equal(t, fleet.ReasonAgentBusy, reason(err))
	_, err = h.Turn(as(t.Context(), "bob"), turn)
	require.Equal(t, fleet.ReasonAgentNotFound, reason(err))

	require.NoError(t, h.AskStopTask(h.ctx(), first.ID))
	require.NoError(t, h.AskStopTask(h.ctx(), first.ID))
	task, err := h.FollowTask(h.ctx(), first.ID, 0, nil)
	require.NoError(t, err)
	require.Equal(t, fleet.TaskStopped, task.Status)
	require.NoError(t, h.Remove(h.ctx(), v.UID))
	require.NoError(t, h.Remove(h.ctx(), v.UID))
	h.gone(v.UID)
	turn.RequestID = "r3"
	_, err = h.Turn(h.ctx(), turn)
	require.Equal(t, fleet.ReasonAgentOffline, reason(err))
}

// TestConcludeEndsTheRun holds that what ends a contract from outside ends its run too: softly, and before the call
// returns.
func TestConcludeEndsTheRun(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var interrupts []bool
	b := second(t, fake.Config{Before: func(_ context.Context, c fake.Call) error {
		if c.Method == fake.Interrupt {
			mu.Lock()
			defer mu.Unlock()
			interrupts = append(interrupts, c.Kill)
		}
		return nil
	}})
	h := newHarness(t, fake.Config{}, onSecond(b))
	for _, conclude := range []func(uid string) (*fleet.Task, error){
		func(uid string) (*fleet.Task, error) { return h.CompleteByUID(h.ctx(), uid, "well", []byte("p"), 10) },
		func(uid string) (*fleet.Task, error) { return h.StopByUID(h.ctx(), uid) },
	} {
		v, err := h.Launch(h.ctx(), launch("echo begun\nlisten"))
		require.NoError(t, err)
		_, err = h.FollowTask(h.ctx(), v.Task.ID, 0, func(e fleet.Event) error {
			if e.Type == fleet.EventTaskOutput {
				return errEnough
			}
			return nil
		})
		require.ErrorIs(t, err, errEnough)
		_, err = h.StopByUID(as(t.Context(), "bob"), v.UID)
		require.Equal(t, fleet.ReasonAgentNotFound, reason(err))
		mu.Lock()
		interrupts = nil
		mu.Unlock()
		first, err := conclude(v.UID)
		require.NoError(t, err)
		mu.Lock()
		require.Equal(t, []bool{false}, interrupts)
		mu.Unlock()
		<-b.Ended(v.Task.ID)
		second, err := h.CompleteByUID(h.ctx(), v.UID, "other", nil, 10)
		require.NoError(t, err)
		require.Equal(t, first.Status, second.Status)
		require.Equal(t, first.Summary, second.Summary)
		h.gone(v.UID)
		third, err := h.StopByUID(h.ctx(), v.UID)
		require.NoError(t, err)
		require.Equal(t, first.EndedAt, third.EndedAt)
	}
}

var errEnough = fleet.Errorf(fleet.ReasonInternal, "enough")

// TestAgentsToken holds that an agent that reports gets a token for itself alone, which ends with its task.
func TestAgentsToken(t *testing.T) {
	t.Parallel()
	reports := make(chan fleet.Report, 10)
	b := second(t, fake.Config{
		Traits: fleet.Traits{TakesReport: true},
		Before: func(_ context.Context, c fake.Call) error {
			if c.Method == fake.Dispatch {
				reports <- *c.Report
			}
			return nil
		},
	})
	h := newHarness(t, fake.Config{}, func(c *state.Config) {
		onSecond(b)(c)
		c.MCPURL = func() string { return "http://127.0.0.1:1/mcp" }
	})
	b.Fail(fake.Dispatch, 1, nil) // the hook comes first: that token was in vain
	v, err := h.Launch(h.ctx(), launch("listen"))
	require.NoError(t, err)
	lost, report := <-reports, <-reports
	require.Equal(t, "http://127.0.0.1:1/mcp/lifecycle", report.URL)
	require.True(t, fleet.IsAgentSecret(report.Token))
	_, err = h.Authenticate(t.Context(), lost.Token)
	require.Equal(t, fleet.ReasonUnauthenticated, reason(err))
	p, err := h.Authenticate(t.Context(), report.Token)
	require.NoError(t, err)
	require.Equal(t, fleet.Principal{Name: "alice", Kind: fleet.AgentKind, Scope: fleet.ScopeRun, AgentUID: v.UID, AgentName: "tester"}, p)
	tokens, err := h.ListTokens(asAdmin(t.Context()))
	require.NoError(t, err)
	require.Empty(t, tokens)

	other, err := h.Launch(h.ctx(), launch("listen"))
	require.NoError(t, err)
	<-reports
	self := fleet.WithPrincipal(t.Context(), p)
	_, err = h.CompleteByUID(self, other.UID, "mine", nil, 10)
	require.Equal(t, fleet.ReasonAgentNotFound, reason(err), "another agent of the same owner")
	task, err := h.CompleteByUID(self, v.UID, "mine", nil, 10)
	require.NoError(t, err)
	require.Equal(t, "mine", task.Summary)
	_, err = h.Authenticate(t.Context(), report.Token)
	require.Equal(t, fleet.ReasonUnauthenticated, reason(err))
	require.NoError(t, h.Remove(h.ctx(), other.UID))
	h.gone(other.UID)
}

// TestABackendThatIsNotConfigured holds that agents of a backend that is not there are not lost.
func TestABackendThatIsNotConfigured(t *testing.T) {
	t.Parallel()
	b := second(t, fake.Config{})
	h := newHarness(t, fake.Config{}, onSecond(b))
	r := launch("")
	r.OneTask = false
	v, err := h.Launch(h.ctx(), r)
	require.NoError(t, err)
	_, err = h.Turn(h.ctx(), service.TurnRequest{Method: "Test", AgentUID: v.UID, Prompt: "echo begun\nwait gate\ndone well"})
	require.NoError(t, err)
	h.cfg.Others = nil
	h.restart()
	require.NoError(t, h.rec2().Remove(h.ctx(), v.UID))
	service := h.Service // a check can outlive Never
	require.Never(t, func() bool {
		views, _, err := service.AgentsByUID(h.ctx(), []string{v.UID})
		return err != nil || !views[0].DeletedAt.IsZero()
	}, 300*time.Millisecond, 20*time.Millisecond)
	onSecond(b)(&h.cfg)
	h.restart()
	h.gone(v.UID)
}

// TestMarker holds that a marker counts when the run has ended, and only as the last line of the final message.
func TestMarker(t *testing.T) {
	t.Parallel()
	b := second(t, fake.Config{})
	h := newHarness(t, fake.Config{}, onSecond(b))
	v, err := h.Launch(h.ctx(), launch("echo [CONTRACT COMPLETE]\nwait gate\ndone all\\n[CONTRACT COMPLETE]"))
	require.NoError(t, err)
	seen := false
	task, err := h.FollowTask(h.ctx(), v.Task.ID, 0, func(e fleet.Event) error {
		if e.Type == fleet.EventTaskOutput {
			seen = true
			views, _, err := h.AgentsByUID(h.ctx(), []string{v.UID})
			require.NoError(t, err)
			require.Equal(t, fleet.TaskRunning, views[0].Task.Status)
			b.Release("gate")
		}
		return nil
	})
	require.NoError(t, err)
	require.True(t, seen)
	require.Equal(t, fleet.TaskCompleted, task.Status)
	require.Equal(t, "all", task.Summary)
	require.True(t, task.Reported)
	h.gone(v.UID)
}
