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
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
	"fleet/internal/waittest"
)

// TestLaunchAtAnotherPlace checks that a launch without a place uses the place that has the driver, and that the
// agent is deleted after its task.
func TestLaunchAtAnotherPlace(t *testing.T) {
	t.Parallel()
	b := servicetest.SecondPlace(t, fake.Config{})
	h := servicetest.New(t, fake.Config{}, servicetest.WithToolsetPlace(b))
	r := servicetest.LaunchRequest("echo one\nstep looks\necho two\npayload all\ndone well")
	r.Place = "" // chooses the place that has the driver
	v, err := h.Launch(h.Context(), r)
	require.NoError(t, err)
	require.Equal(t, "second", v.Place)
	require.Equal(t, fleet.TaskRunning, v.Task.Status)
	var texts []string
	task, err := h.FollowTask(h.Context(), v.Task.ID, 0, func(e fleet.Event) error {
		if e.Type == fleet.EventTaskOutput || e.Type == fleet.EventTaskStep {
			texts = append(texts, e.Text)
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []string{"one", "looks", "two"}, texts)
	require.Equal(t, "well", task.Summary)
	payload, err := h.Payload(h.Context(), task.ID)
	require.NoError(t, err)
	require.Equal(t, "all", string(payload))
	require.Equal(t, fleet.StateDeleted, h.WaitDeleted(v.UID).State, "an agent with one task is deleted after it")
	require.Empty(t, b.Workspaces())
	require.Empty(t, h.FakePlace.Workspaces())
	_, err = h.FollowTask(servicetest.As(t.Context(), "bob"), v.Task.ID, 0, nil)
	require.Equal(t, fleet.ReasonTaskNotFound, fleet.ReasonOf(err))
}

// TestLaunchRefuses checks that an invalid launch, or a launch without a principal, is refused.
func TestLaunchRefuses(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, servicetest.WithToolsetPlace(servicetest.SecondPlace(t, fake.Config{})))
	for want, change := range map[string]func(*service.LaunchRequest){
		`no place "third": there are fake, second`:   func(r *service.LaunchRequest) { r.Place = "third" },
		`no driver "claude": it has script`:          func(r *service.LaunchRequest) { r.Config.Driver = "claude" },
		`no driver "script": it has none`:            func(r *service.LaunchRequest) { r.Place = "fake" },
		`no place of this server has the driver "x"`: func(r *service.LaunchRequest) { r.Place, r.Config.Driver = "", "x" },
		`"Nope"`: func(r *service.LaunchRequest) { r.Config, r.Project = nil, "Nope" },
	} {
		r := servicetest.LaunchRequest("x")
		change(&r)
		_, err := h.Launch(h.Context(), r)
		require.Equal(t, fleet.InvalidArgument, err.(*fleet.Error).Code) //nolint:errorlint // Launch returns a *fleet.Error
		require.ErrorContains(t, err, want)
	}
	_, err := h.Launch(t.Context(), servicetest.LaunchRequest("x"))
	require.Equal(t, fleet.ReasonUnauthenticated, fleet.ReasonOf(err))
}

// TestTurns checks that StartTurn starts a task only for the agent's owner and only if the agent has none, and that it
// returns the same task for a repeated request id.
func TestTurns(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, servicetest.WithToolsetPlace(servicetest.SecondPlace(t, fake.Config{})))
	r := servicetest.LaunchRequest("")
	r.OneTask = false
	v, err := h.Launch(h.Context(), r)
	require.NoError(t, err)
	require.Nil(t, v.Task)
	turn := service.TurnRequest{Method: "Test", AgentUID: v.UID, Prompt: "wait gate\ndone one", SessionID: "s", RequestID: "r1"}
	first, err := h.StartTurn(h.Context(), turn) // works before the agent is ready, too
	require.NoError(t, err)
	again, err := h.StartTurn(h.Context(), turn)
	require.NoError(t, err)
	require.Equal(t, first.ID, again.ID)
	turn.RequestID = "r2"
	_, err = h.StartTurn(h.Context(), turn)
	require.Equal(t, fleet.ReasonAgentBusy, fleet.ReasonOf(err))
	_, err = h.StartTurn(servicetest.As(t.Context(), "bob"), turn)
	require.Equal(t, fleet.ReasonAgentNotFound, fleet.ReasonOf(err))

	require.NoError(t, h.RequestTaskStop(h.Context(), first.ID))
	require.NoError(t, h.RequestTaskStop(h.Context(), first.ID))
	task, err := h.FollowTask(h.Context(), first.ID, 0, nil)
	require.NoError(t, err)
	require.Equal(t, fleet.TaskStopped, task.Status)
	require.NoError(t, h.RemoveAgent(h.Context(), v.UID))
	require.NoError(t, h.RemoveAgent(h.Context(), v.UID))
	h.WaitDeleted(v.UID)
	turn.RequestID = "r3"
	_, err = h.StartTurn(h.Context(), turn)
	require.Equal(t, fleet.ReasonAgentOffline, fleet.ReasonOf(err))
}

// TestByUIDCallsEndTheRun checks that CompleteByUID and StopByUID interrupt the run, without a kill, before they return,
// and that the first call decides how the task ends.
func TestByUIDCallsEndTheRun(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var interrupts []bool
	b := servicetest.SecondPlace(t, fake.Config{Before: func(_ context.Context, c fake.Call) error {
		if c.Method == fake.Interrupt {
			mu.Lock()
			defer mu.Unlock()
			interrupts = append(interrupts, c.Kill)
		}
		return nil
	}})
	h := servicetest.New(t, fake.Config{}, servicetest.WithToolsetPlace(b))
	endRun := func(end func(uid string) (*fleet.Task, error)) (inTime bool) {
		v, err := h.Launch(h.Context(), servicetest.LaunchRequest("echo begun\nlisten"))
		require.NoError(t, err)
		_, err = h.FollowTask(h.Context(), v.Task.ID, 0, func(e fleet.Event) error {
			if e.Type == fleet.EventTaskOutput {
				return errEnough
			}
			return nil
		})
		require.ErrorIs(t, err, errEnough)
		_, err = h.StopByUID(servicetest.As(t.Context(), "bob"), v.UID)
		require.Equal(t, fleet.ReasonAgentNotFound, fleet.ReasonOf(err))
		mu.Lock()
		interrupts = nil
		mu.Unlock()
		begun := time.Now()
		first, err := end(v.UID)
		require.NoError(t, err)
		if inTime = time.Since(begun) < 2*time.Second; inTime { // a slower call has stopped waiting for the interrupt: see interruptTimeout
			mu.Lock()
			require.Equal(t, []bool{false}, interrupts)
			mu.Unlock()
		}
		<-b.Ended(v.Task.ID)
		second, err := h.CompleteByUID(h.Context(), v.UID, "other", nil, 10)
		require.NoError(t, err)
		require.Equal(t, first.Status, second.Status)
		require.Equal(t, first.Summary, second.Summary)
		h.WaitDeleted(v.UID)
		third, err := h.StopByUID(h.Context(), v.UID)
		require.NoError(t, err)
		require.Equal(t, first.EndedAt, third.EndedAt)
		return inTime
	}
	for _, end := range []func(uid string) (*fleet.Task, error){
		func(uid string) (*fleet.Task, error) {
			return h.CompleteByUID(h.Context(), uid, "well", []byte("p"), 10)
		},
		func(uid string) (*fleet.Task, error) { return h.StopByUID(h.Context(), uid) },
	} {
		waittest.Until(t, "a call that is too slow is repeated", func() bool { return endRun(end) })
	}
}

var errEnough = fleet.Errorf(fleet.ReasonInternal, "enough")

// TestAgentsToken checks that an agent that reports its end gets a token. The token is valid only for this agent, and only
// until its task ends.
func TestAgentsToken(t *testing.T) {
	t.Parallel()
	endpoints := make(chan fleet.ServerEndpoint, 10)
	b := servicetest.SecondPlace(t, fake.Config{
		Traits: fleet.Traits{ReachesFleet: true},
		Before: func(_ context.Context, c fake.Call) error {
			if c.Method == fake.Dispatch {
				endpoints <- *c.FleetEndpoint
			}
			return nil
		},
	})
	h := servicetest.New(t, fake.Config{}, func(c *state.Config) {
		servicetest.WithToolsetPlace(b)(c)
		c.MCPURL = func() string { return "http://127.0.0.1:1/mcp" }
	})
	b.Fail(fake.Dispatch, 1, nil) // Before gets the token of the failed dispatch too, and the retry replaces that token
	v, err := h.Launch(h.Context(), servicetest.LaunchRequest("listen"))
	require.NoError(t, err)
	replacedEndpoint, endpoint := <-endpoints, <-endpoints
	require.Equal(t, "http://127.0.0.1:1/mcp/lifecycle", endpoint.URL)
	require.True(t, fleet.IsAgentSecret(endpoint.Token))
	_, err = h.Authenticate(t.Context(), replacedEndpoint.Token)
	require.Equal(t, fleet.ReasonUnauthenticated, fleet.ReasonOf(err))
	p, err := h.Authenticate(t.Context(), endpoint.Token)
	require.NoError(t, err)
	require.Equal(t, fleet.Principal{Name: "alice", Kind: fleet.KindAgent, Scope: fleet.ScopeRun, AgentUID: v.UID, AgentName: "tester", TaskID: v.Task.ID}, p)
	tokens, err := h.ListTokens(servicetest.AsAdmin(t.Context()))
	require.NoError(t, err)
	require.Empty(t, tokens)

	other, err := h.Launch(h.Context(), servicetest.LaunchRequest("listen"))
	require.NoError(t, err)
	<-endpoints
	self := fleet.WithPrincipal(t.Context(), p)
	_, err = h.CompleteByUID(self, other.UID, "mine", nil, 10)
	require.Equal(t, fleet.ReasonAgentNotFound, fleet.ReasonOf(err), "the token must not be valid for another agent of the same owner")
	task, err := h.CompleteByUID(self, v.UID, "mine", nil, 10)
	require.NoError(t, err)
	require.Equal(t, "mine", task.Summary)
	_, err = h.Authenticate(t.Context(), endpoint.Token)
	require.Equal(t, fleet.ReasonUnauthenticated, fleet.ReasonOf(err))
	require.NoError(t, h.RemoveAgent(h.Context(), other.UID))
	h.WaitDeleted(other.UID)
}

// TestLaunchNames checks that a launched agent of a project gets a name that every host accepts for a workspace.
func TestLaunchNames(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	for name, want := range map[string]string{
		"":                    `^[0-9a-f]{20}$`,
		"web":                 `^web-[0-9a-f]{12}$`,
		"code_review-of-many": `^code-re-[0-9a-f]{12}$`,
		"a--b___c":            `^a-b-c-[0-9a-f]{12}$`,
		"github_actions":      `^github-[0-9a-f]{12}$`,
		"größe":               `^gr-e-[0-9a-f]{12}$`,
		"__":                  `^[0-9a-f]{20}$`,
	} {
		v, err := h.Launch(h.Context(), service.LaunchRequest{Method: "Test", Toolset: fleet.ToolsetSubagents, Project: "Setup", Spec: "x", Name: name, Prompt: "done", OneTask: true})
		require.NoError(t, err)
		require.Regexp(t, want, v.Name)
		require.NoError(t, fleet.ValidateAgentName(v.Name))
	}
}
