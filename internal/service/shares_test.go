package service_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
)

// member returns a context for calls of a person who is in the groups.
func member(ctx context.Context, name string, groups ...string) context.Context {
	return fleet.WithPrincipal(ctx, fleet.Principal{Name: name, Kind: fleet.KindHuman, Scope: fleet.ScopeRun, Groups: groups})
}

// shareAgent shares an agent of alice.
func shareAgent(h *servicetest.Harness, r service.ShareRequest) {
	h.T.Helper()
	_, _, err := h.ShareAgent(h.Context(), r)
	require.NoError(h.T, err)
}

// TestSharesWithGroups checks that members of a group have the access of its share, that other callers have none, and that the
// number of shares is limited.
func TestSharesWithGroups(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	h.Create("papi")
	shareAgent(h, service.ShareRequest{Agent: "papi", Grantee: fleet.Grantee{Group: "oidc:ops"}, Access: fleet.AccessView})
	shareAgent(h, service.ShareRequest{Agent: "papi", Grantee: fleet.Grantee{Group: "oidc:devs"}, Access: fleet.AccessRun})
	total := func(ctx context.Context) int {
		l, err := h.ListAgents(ctx, fleet.ListAgentsRequest{})
		require.NoError(t, err)
		return l.Total
	}
	ops, both, none := member(t.Context(), "bob", "sales", "oidc:ops"), member(t.Context(), "bob", "oidc:ops", "oidc:devs"), member(t.Context(), "bob", "sales")
	named := member(t.Context(), "oidc:ops") // a person with the name of a group is not in it
	require.Equal(t, 1, total(ops))
	require.Equal(t, 1, total(both))
	require.Zero(t, total(none))
	require.Zero(t, total(named))
	start := func(ctx context.Context) error {
		_, err := h.StartTask(ctx, service.StartTaskRequest{Agent: "papi", Description: "wait gate"})
		return err
	}
	require.Equal(t, fleet.ReasonPermissionDenied, fleet.ReasonOf(start(ops)))
	require.Equal(t, fleet.ReasonAgentNotFound, fleet.ReasonOf(start(none)))
	require.NoError(t, start(both), "the highest access counts")

	agentCtx := fleet.WithPrincipal(t.Context(), fleet.Principal{Name: "bob", Kind: fleet.KindAgent, Groups: []string{"oidc:ops"}, AgentUID: "u", AgentName: "x"})
	require.Zero(t, total(agentCtx), "an agent does not see what is shared with its owner")

	for range fleet.MaxShares - 2 {
		shareAgent(h, service.ShareRequest{Agent: "papi", Grantee: fleet.Grantee{Person: h.NewID()}})
	}
	_, _, err := h.ShareAgent(h.Context(), service.ShareRequest{Agent: "papi", Grantee: fleet.Grantee{Person: "one more"}})
	require.Equal(t, fleet.ReasonLimitReached, fleet.ReasonOf(err))
}

// TestSharesOfDeletedAgent checks that a person with whom a deleted agent was shared still sees its history, and that others do not.
func TestSharesOfDeletedAgent(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	h.Create("papi")
	shareAgent(h, service.ShareRequest{Agent: "papi", Grantee: fleet.Grantee{Person: "bob"}})
	task := h.Start("papi", "echo hello\ndone")
	h.WaitTask(task.ID)
	_, _, err := h.DeleteAgent(h.Context(), "papi", false, "")
	require.NoError(t, err)
	checkHistory := func() {
		t.Helper()
		bob := servicetest.As(t.Context(), "bob")
		for _, ref := range []string{"papi", "papi@alice"} {
			past, err := h.TaskHistory(bob, ref, fleet.PageRequest{})
			require.NoError(t, err)
			require.Equal(t, task.ID, past.Tasks[0].ID)
			listed, err := h.ListTasks(bob, service.ListTasksRequest{Agent: ref})
			require.NoError(t, err)
			require.Equal(t, 1, listed.Total)
		}
		_, err := h.TaskHistory(servicetest.As(t.Context(), "carol"), "papi@alice", fleet.PageRequest{})
		require.Equal(t, fleet.ReasonAgentNotFound, fleet.ReasonOf(err))
	}
	checkHistory()
	h.Restart()
	checkHistory()
}

// TestWatchEndsWithShare checks that a watcher gets the events of an agent only while the agent is shared with the
// watcher.
func TestWatchEndsWithShare(t *testing.T) {
	t.Parallel()
	for name, ref := range map[string]string{"everything": "", "the agent": "papi@alice"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := servicetest.New(t, fake.Config{}, nil)
			h.Create("papi")
			if ref != "" {
				shareAgent(h, service.ShareRequest{Agent: "papi", Grantee: fleet.Grantee{Person: "bob"}})
			}
			got := make(chan fleet.Event, 100)
			ended := make(chan error, 1)
			ctx, cancel := context.WithCancel(servicetest.As(t.Context(), "bob"))
			defer cancel()
			go func() {
				ended <- h.Watch(ctx, service.WatchRequest{AgentName: ref, Follow: true, Wait: -1}, func(events []fleet.Event, _ string) error {
					for _, e := range events {
						got <- e
					}
					return nil
				})
			}()
			if ref == "" {
				shareAgent(h, service.ShareRequest{Agent: "papi", Grantee: fleet.Grantee{Person: "bob"}})
				for e := <-got; e.Type != fleet.EventAgentShared; {
					e = <-got
				}
			}
			task := h.Start("papi", "echo first\nwait gate")
			for {
				if e := <-got; e.Type == fleet.EventTaskOutput {
					require.Equal(t, task.ID, e.TaskID)
					break
				}
			}
			_, _, err := h.UnshareAgent(h.Context(), service.ShareRequest{Agent: "papi", Grantee: fleet.Grantee{Person: "bob"}})
			require.NoError(t, err)
			_, _, _, err = h.StopTask(h.Context(), "papi", "")
			require.NoError(t, err)
			if ref != "" {
				require.Equal(t, fleet.ReasonAgentNotFound, fleet.ReasonOf(<-ended))
				for len(got) > 0 {
					require.NotEqual(t, fleet.EventTaskEnded, (<-got).Type)
				}
				return
			}
			var last fleet.Event
			for last.Type != fleet.EventAgentUnshared {
				last = <-got
				require.NotEqual(t, fleet.EventTaskEnded, last.Type)
			}
			require.Equal(t, "papi", last.AgentName)
			require.Equal(t, "alice", last.Owner)
			_, _, err = h.CreateAgent(servicetest.As(t.Context(), "bob"), service.CreateAgentRequest{Name: "mine", Project: "Setup", Spec: "x"})
			require.NoError(t, err)
			require.Equal(t, "mine", (<-got).AgentName, "no further event of the agent that is no longer shared")
		})
	}
}

// TestWaitEndsWithShare checks that a wait for a task fails with TASK_NOT_FOUND when the agent is no longer shared with
// the caller.
func TestWaitEndsWithShare(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	h.Create("papi")
	shareAgent(h, service.ShareRequest{Agent: "papi", Grantee: fleet.Grantee{Person: "bob"}})
	task := h.Start("papi", "wait gate")
	ended := make(chan error, 1)
	go func() {
		_, _, err := h.WaitTasks(servicetest.As(t.Context(), "bob"), []string{task.ID}, service.WaitCondition{}, service.MaxWait)
		ended <- err
	}()
	_, _, err := h.UnshareAgent(h.Context(), service.ShareRequest{Agent: "papi", Grantee: fleet.Grantee{Person: "bob"}})
	require.NoError(t, err)
	require.Equal(t, fleet.ReasonTaskNotFound, fleet.ReasonOf(<-ended))
}
