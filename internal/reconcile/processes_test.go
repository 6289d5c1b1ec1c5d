package reconcile_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/reconcile"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// TestTwoProcesses runs two services and reconcilers on one store, as two processes do, and calls both at random about the
// same agents. No task may be dispatched twice, and in the end each agent must run or be stopped, without a task.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	t.Run("store works", func(t *testing.T) { t.Parallel(); twoProcesses(t, 0) })
	t.Run("store fails now and then", func(t *testing.T) { t.Parallel(); twoProcesses(t, 7) })
}

// twoProcesses runs one case of TestTwoProcesses. In the first process, every failEvery-th call of the store fails. If failEvery is 0,
// no call fails.
func twoProcesses(t *testing.T, failEvery int64) {
	h, flaky := servicetest.NewFlaky(t, func(c *state.Config) {
		c.LeaseTTL = 10 * time.Second // longer than a pause of a slow machine
		if failEvery > 0 {
			c.LeaseTTL = 300 * time.Millisecond // leases whose release fails must expire
		}
	})
	st := state.New(flaky.Store, []fleet.Place{h.FakePlace}, h.Config)
	otherService, otherReconciler := service.New(st), reconcile.New(st, nil)
	otherReconciler.Start()
	t.Cleanup(otherReconciler.Stop)

	flaky.FailEvery.Store(failEvery)
	services := []*service.Service{h.Service, otherService}
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	var mu sync.Mutex
	var tasks []string
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i))) //nolint:gosec // a test
			for range 15 {
				s, name := services[random.IntN(2)], names[random.IntN(len(names))]
				var err error
				switch n := random.IntN(20); {
				case n < 5:
					_, _, err = s.CreateAgent(h.Context(), service.CreateAgentRequest{Name: name, Project: "Setup", Spec: "x"})
				case n < 13:
					var task *fleet.Task
					task, err = s.StartTask(h.Context(), service.StartTaskRequest{Agent: name, Description: "echo 1\nwork 10ms\ndone"})
					if err == nil {
						mu.Lock()
						tasks = append(tasks, task.ID)
						mu.Unlock()
					}
				case n < 15:
					_, _, _, err = s.StopTask(h.Context(), name, "")
				case n < 17:
					_, _, err = s.RestartAgent(h.Context(), service.RestartAgentRequest{Agent: name})
				case n < 18:
					_, _, err = s.StopAgent(h.Context(), name, "")
				case n < 19:
					_, _, err = s.StartAgent(h.Context(), name, "")
				default:
					_, _, err = s.DeleteAgent(h.Context(), name, false, "")
				}
				switch fleet.ReasonOf(err) {
				case "", fleet.ReasonAgentNotFound, fleet.ReasonAgentExists, fleet.ReasonAgentBusy, fleet.ReasonAgentOffline, fleet.ReasonNoRunningTask,
					fleet.ReasonProvisioningFailed: // another call has started or stopped the agent meanwhile
				default:
					if !errors.Is(err, servicetest.ErrFlaky) {
						t.Errorf("%s: %v", name, err)
					}
				}
			}
		})
	}
	clients.Wait()
	flaky.FailEvery.Store(0)

	require.NotEmpty(t, tasks)
	for _, id := range tasks {
		task := h.WaitTask(id)
		require.LessOrEqual(t, h.FakePlace.RunCount(id), 1)
		require.Contains(t, []fleet.TaskStatus{fleet.TaskCompleted, fleet.TaskStopped}, task.Status, task.Reason)
		if task.Status == fleet.TaskCompleted {
			require.Equal(t, "1", h.Output(id))
		}
	}
	var listed *service.AgentList
	h.WaitStored(func() bool { // a deletion whose call failed may still be under way
		var err error
		listed, err = otherService.ListAgents(h.Context(), fleet.ListAgentsRequest{})
		require.NoError(t, err)
		return !slices.ContainsFunc(listed.Agents, func(v *fleet.AgentView) bool { return v.Desired == fleet.DesiredDeleted })
	})
	var uids []string
	for _, v := range listed.Agents {
		v = h.WaitAgent(v.Name, func(v *fleet.AgentView) bool { return v.Settled() && v.Task == nil })
		require.Contains(t, []fleet.State{fleet.StateRunning, fleet.StateStopped}, v.State)
		uids = append(uids, v.UID)
	}
	h.WaitStored(func() bool { // no workspace remains without an agent: a workspace is deleted before its agent
		for _, ws := range h.FakePlace.Workspaces() {
			if !slices.Contains(uids, ws.AgentUID) {
				return false
			}
		}
		return true
	})
}
