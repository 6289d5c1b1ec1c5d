package service_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
)

// TestRestoredAgentStays restores agents that Fleet deletes by itself: agents of pools, and agents that were created for one task. A
// restored agent must be in no pool, so that no other task gets its workspace, and nothing may delete it again by itself.
func TestRestoredAgentStays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reuse      fleet.ReusePolicy // of the pool; empty: the agent is in no pool
		deletePool bool
	}{
		"pool":         {reuse: fleet.ReuseAny},
		"deleted pool": {reuse: fleet.ReuseAny, deletePool: true},
		"one task":     {reuse: fleet.ReuseFresh},
		"idle limit":   {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := servicetest.New(t, fake.Config{}, nil)
			r := service.QueueTaskRequest{StartTaskRequest: service.StartTaskRequest{Description: "wait gate\ndone"}}
			if c.reuse != "" {
				_, err := h.CreatePool(h.Context(), service.CreatePoolRequest{Pool: fleet.Pool{Name: "web", Spec: "a spec", Reuse: c.reuse, Groups: []string{"oidc:dev"}}, Project: "Setup"})
				require.NoError(t, err)
				r.Pool = "web"
			} else {
				r.Project, r.NewAgent, r.MaxIdle = "Setup", true, time.Hour
			}
			queued, err := h.QueueTask(h.Context(), r)
			require.NoError(t, err)
			var task *fleet.Task
			h.WaitStored(func() bool {
				shown, err := h.ShowTask(h.Context(), queued.ID, nil)
				require.NoError(t, err)
				task = shown.Task
				return task.Status == fleet.TaskRunning
			})
			h.FakePlace.KeepOnDelete(task.AgentName, "2 uncommitted files")
			h.FakePlace.Release("gate")
			h.WaitTask(task.ID)
			if c.reuse != fleet.ReuseFresh {
				_, _, err = h.DeleteAgent(h.Context(), task.AgentName, false, "")
				require.NoError(t, err)
			}
			h.WaitDeleted(task.AgentUID)
			if c.deletePool {
				_, err = h.DeletePool(h.Context(), "web", "")
				require.NoError(t, err)
			}

			v, _, err := h.RestoreAgent(h.Context(), service.RestoreAgentRequest{Agent: task.AgentName})
			require.NoError(t, err)
			require.Equal(t, fleet.StatusIdle, v.Status())
			require.Empty(t, v.Pool)
			require.NotContains(t, v.Labels, "pool")
			require.False(t, v.OneTask)
			require.Zero(t, v.MaxIdle)
			require.Equal(t, fleet.TaskCompleted, h.WaitTask(h.Start(v.Name, "done").ID).Status)
			v, err = h.ShowAgent(h.Context(), v.Name)
			require.NoError(t, err)
			require.Equal(t, fleet.DesiredRunning, v.Desired)
		})
	}
}
