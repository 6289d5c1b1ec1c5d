package service_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/reconcile"
	"fleet/internal/service"
	"fleet/internal/state"
	"fleet/internal/store/sqlite"
	"fleet/internal/waittest"
)

// TestTwoProcesses lets two services and reconcilers, each with a connection of its own to one store, do a mix of
// everything to the same agents: no task is given twice, and everything comes to rest where it was wanted.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	t.Run("store works", func(t *testing.T) { t.Parallel(); twoProcesses(t, 0) })
	t.Run("store fails now and then", func(t *testing.T) { t.Parallel(); twoProcesses(t, 7) })
}

// twoProcesses lets every so many accesses of one of the two to the store fail, 0 for none.
func twoProcesses(t *testing.T, fails int64) {
	h, flaky := newFlaky(t, func(c *state.Config) { c.LeaseTTL = 300 * time.Millisecond })
	second, err := sqlite.Open(t.Context(), h.path, sqlite.Config{})
	require.NoError(t, err)
	st := state.New(second, []fleet.Place{h.world}, h.cfg)
	other, r := service.New(st), reconcile.New(st)
	r.Start()
	t.Cleanup(func() {
		r.Stop()
		require.NoError(t, second.Close())
	})

	flaky.fails.Store(fails)
	services := []*service.Service{h.Service, other}
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	var mu sync.Mutex
	var tasks []string
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(i))) //nolint:gosec // a test
			for range 15 {
				s, name := services[r.IntN(2)], names[r.IntN(len(names))]
				var err error
				switch n := r.IntN(20); {
				case n < 5:
					_, _, err = s.CreateAgent(h.ctx(), service.CreateAgentRequest{Name: name, Project: "Setup", Spec: "x"})
				case n < 13:
					var task *fleet.Task
					task, err = s.StartTask(h.ctx(), service.StartTaskRequest{Agent: name, Description: "echo 1\nwork 10ms\ndone"})
					if err == nil {
						mu.Lock()
						tasks = append(tasks, task.ID)
						mu.Unlock()
					}
				case n < 15:
					_, _, _, err = s.StopTask(h.ctx(), name, "")
				case n < 17:
					_, _, err = s.RestartAgent(h.ctx(), name, "", "")
				case n < 18:
					_, _, err = s.StopAgent(h.ctx(), name, "")
				case n < 19:
					_, _, err = s.StartAgent(h.ctx(), name, "")
				default:
					_, _, err = s.DeleteAgent(h.ctx(), name, "")
				}
				switch reason(err) {
				case "", fleet.ReasonAgentNotFound, fleet.ReasonAgentExists, fleet.ReasonAgentBusy, fleet.ReasonAgentOffline, fleet.ReasonNoRunningTask:
				default:
					if !errors.Is(err, errFlaky) {
						t.Errorf("%s: %v", name, err)
					}
				}
			}
		})
	}
	clients.Wait()
	flaky.fails.Store(0)

	require.NotEmpty(t, tasks)
	for _, id := range tasks {
		task := h.end(id)
		require.LessOrEqual(t, h.world.Deliveries(id), 1)
		require.Contains(t, []fleet.TaskStatus{fleet.TaskCompleted, fleet.TaskStopped}, task.Status, task.Reason)
		if task.Status == fleet.TaskCompleted {
			require.Equal(t, "1", h.output(id))
		}
	}
	listed, err := other.ListAgents(h.ctx(), fleet.ListAgentsRequest{})
	require.NoError(t, err)
	var uids []string
	for _, v := range listed.Agents {
		v = h.until(v.Name, func(v *fleet.AgentView) bool { return v.Settled() && v.Task == nil })
		require.Contains(t, []fleet.State{fleet.StateRunning, fleet.StateStopped}, v.State)
		uids = append(uids, v.UID)
	}
	waittest.Until(t, "places give no signal when a workspace goes", func() bool { // and nothing is left in the world that nobody knows
		for _, ws := range h.world.Workspaces() {
			if !slices.Contains(uids, ws.AgentUID) {
				return false
			}
		}
		return true
	})
}

// BenchmarkThousandAgents says what a large fleet costs: listing it, and listing it when one agent has changed.
func BenchmarkThousandAgents(b *testing.B) {
	h := newHarness(b, fake.Config{}, func(c *state.Config) { c.PollInterval, c.Logger = time.Minute, nil })
	var creating sync.WaitGroup
	begun := time.Now()
	for i := range 20 {
		creating.Go(func() {
			for n := range 50 {
				_, _, err := h.CreateAgent(h.ctx(), service.CreateAgentRequest{Name: fmt.Sprintf("agent-%d-%d", i, n), Project: "Setup", Spec: "x"})
				require.NoError(b, err)
			}
		})
	}
	creating.Wait()
	b.Logf("1000 agents were made in %s", time.Since(begun))
	list := func(b *testing.B) {
		listed, err := h.ListAgents(h.ctx(), fleet.ListAgentsRequest{})
		require.NoError(b, err)
		require.Equal(b, 1000, listed.Total)
	}
	b.Run("list", func(b *testing.B) {
		for b.Loop() {
			list(b)
		}
	})
	b.Run("task", func(b *testing.B) {
		for b.Loop() {
			h.end(h.start("agent-0-0", "done").ID)
		}
	})
	b.Run("list-while-tasks-run", func(b *testing.B) {
		stop := make(chan struct{})
		var busy sync.WaitGroup
		for i := range 4 {
			busy.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						h.end(h.start(fmt.Sprintf("agent-%d-1", i), "repeat 20 line\ndone").ID)
					}
				}
			})
		}
		b.ResetTimer()
		for b.Loop() {
			list(b)
		}
		b.StopTimer()
		close(stop)
		busy.Wait()
	})
}
