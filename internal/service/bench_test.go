package service_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// BenchmarkThousandAgents measures a fleet of 1000 agents: listing them, running a task, and listing them while tasks
// run.
func BenchmarkThousandAgents(b *testing.B) {
	h := servicetest.New(b, fake.Config{}, func(c *state.Config) { c.PollInterval, c.Logger = time.Minute, nil })
	var creating sync.WaitGroup
	begun := time.Now()
	for i := range 20 {
		creating.Go(func() {
			for n := range 50 {
				_, _, err := h.CreateAgent(h.Context(), service.CreateAgentRequest{Name: fmt.Sprintf("agent-%d-%d", i, n), Project: "Setup", Spec: "x"})
				require.NoError(b, err)
			}
		})
	}
	creating.Wait()
	b.Logf("1000 agents were created in %s", time.Since(begun))
	list := func(b *testing.B) {
		listed, err := h.ListAgents(h.Context(), fleet.ListAgentsRequest{})
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
			h.WaitTask(h.Start("agent-0-0", "done").ID)
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
						h.WaitTask(h.Start(fmt.Sprintf("agent-%d-1", i), "repeat 20 line\ndone").ID)
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
