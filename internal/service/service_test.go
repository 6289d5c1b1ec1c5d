package service_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
)

// TestRefusals checks refusals that no case of testdata/api provokes. It also checks that names of projects and roles are compared
// ignoring case, and that Watch sends another owner nothing.
func TestRefusals(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	h.Create("papi")
	_, err := h.StartTask(h.Context(), service.StartTaskRequest{Agent: "papi", Description: "a\xffb"})
	require.Equal(t, fleet.ReasonInvalidArgument, fleet.ReasonOf(err))
	_, _, err = h.CreateAgent(h.Context(), service.CreateAgentRequest{Name: "PAPI", Project: "Setup", Spec: "x"})
	require.Equal(t, fleet.ReasonAgentExists, fleet.ReasonOf(err))
	_, _, err = h.CreateAgent(h.Context(), service.CreateAgentRequest{Name: "other", Project: "setup monorepo", Role: "OPERATOR", Spec: "x"})
	require.NoError(t, err)
	_, err = h.ListAgents(t.Context(), fleet.ListAgentsRequest{})
	require.Equal(t, fleet.ReasonUnauthenticated, fleet.ReasonOf(err))
	err = h.Watch(servicetest.As(t.Context(), "bob"), service.WatchRequest{}, func(events []fleet.Event, _ string) error {
		require.Empty(t, events)
		return nil
	})
	require.NoError(t, err)
}

// TestOneTaskAtATime checks that one of many concurrent starts succeeds, and that the others are refused.
func TestOneTaskAtATime(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	h.Create("papi")
	var started, busy atomic.Int32
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			switch _, err := h.StartTask(h.Context(), service.StartTaskRequest{Agent: "papi", Description: "wait gate"}); fleet.ReasonOf(err) {
			case "":
				started.Add(1)
			case fleet.ReasonAgentBusy:
				busy.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, started.Load())
	require.EqualValues(t, 99, busy.Load())
}

// TestOneTaskPerRequestID checks that concurrent and later starts with one request id return the same task.
func TestOneTaskPerRequestID(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	h.Create("papi")
	answers, errs := make([]*fleet.Task, 100), make([]error, 100)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			answers[i], errs[i] = h.StartTask(h.Context(), service.StartTaskRequest{Agent: "papi", Description: "done", RequestID: "one"})
		})
	}
	wg.Wait()
	for i, a := range answers {
		require.NoError(t, errs[i])
		require.Equal(t, answers[0].ID, a.ID)
		require.Equal(t, fleet.TaskRunning, a.Status)
		require.Equal(t, answers[0].StartedAt, a.StartedAt)
	}
	h.WaitTask(answers[0].ID)
	require.Equal(t, 1, h.FakePlace.RunCount(answers[0].ID))
	h.Restart()
	again, err := h.StartTask(h.Context(), service.StartTaskRequest{Agent: "papi", Description: "done", RequestID: "one"})
	require.NoError(t, err)
	require.Equal(t, answers[0].ID, again.ID)
}

// TestDeleteBusyAgent checks that DeleteAgent stops a task that ignores interrupts, and removes the workspace.
func TestDeleteBusyAgent(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	h.Create("papi")
	task := h.Start("papi", "ignore-interrupt\nwait gate")
	<-h.FakePlace.Reached("gate")
	_, _, err := h.DeleteAgent(h.Context(), "papi", false, "")
	require.NoError(t, err)
	require.Equal(t, fleet.TaskStopped, h.WaitTask(task.ID).Status)
	require.Empty(t, h.FakePlace.Workspaces())
}

// TestDeleteWhileProvisioning checks that a deletion during the creation of an agent leaves no workspace, and that CreateAgent fails.
func TestDeleteWhileProvisioning(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	gate := h.FakePlace.Hold(fake.Provision)
	created := make(chan error, 1)
	go func() {
		_, _, err := h.CreateAgent(h.Context(), service.CreateAgentRequest{Name: "papi", Project: "Setup", Spec: "x"})
		created <- err
	}()
	<-gate.Arrived()
	_, _, err := h.DeleteAgent(h.Context(), "papi", false, "")
	require.NoError(t, err)
	require.Equal(t, fleet.ReasonAgentNotFound, fleet.ReasonOf(<-created))
	require.Empty(t, h.FakePlace.Workspaces())
}
