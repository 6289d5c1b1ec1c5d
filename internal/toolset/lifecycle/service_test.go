package lifecycle_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/place/local"
	"fleet/internal/service/servicetest"
	"fleet/internal/toolset/lifecycle"
)

const contract = "Count the ducks in the pond."

// newLifecycle starts a fleet with a place for models. It returns the toolset over the fleet, the harness of the fleet, the
// place for models, and a function that returns the agent that was provisioned last.
func newLifecycle(t *testing.T, cfg lifecycle.Config) (s *lifecycle.Service, h *servicetest.Harness, models *fake.Place, lastProvisioned func() fleet.Agent) {
	t.Helper()
	var mu sync.Mutex
	var last fleet.Agent
	recordAgent := func(_ context.Context, c fake.Call) error {
		mu.Lock()
		defer mu.Unlock()
		if c.Method == fake.Provision {
			last = c.Agent
		}
		return nil
	}
	models = fake.New(fake.Config{Traits: fleet.Traits{Name: "cagent", Drivers: local.ModelDrivers()}, Before: recordAgent})
	t.Cleanup(models.Destroy)
	h = servicetest.New(t, fake.Config{Before: recordAgent}, servicetest.WithToolsetPlace(models))
	return lifecycle.New(h.Service, cfg, func() string { return "" }), h, models, func() fleet.Agent {
		mu.Lock()
		defer mu.Unlock()
		return last
	}
}

// TestPromptOnce checks that an agent gets its contract once, and no instruction to use a tool that it does not have.
func TestPromptOnce(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]lifecycle.Config{
		"a model":               {Place: "cagent", Driver: "cagent", Model: "openai/gpt-5"},
		"a model of some place": {Driver: "cagent", Model: "openai/gpt-5"},
		"a project":             {Project: "Setup", Role: "coder"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, h, _, lastProvisioned := newLifecycle(t, cfg)
			a, err := s.Start(h.Context(), lifecycle.StartRequest{Contract: contract})
			require.NoError(t, err)
			h.WaitStored(func() bool { return lastProvisioned().UID != "" })
			v := lastProvisioned()
			require.Equal(t, cfg.Model != "", v.Config.Document != "", "the driver of a model needs a document")
			texts := v.Spec + v.Config.SystemPrompt + v.Config.Document
			require.NotContains(t, texts, contract, "only the prompt must have the contract")
			require.Equal(t, 1, strings.Count(texts, "Your agent_id is "+a.ID))
			require.NotContains(t, strings.ReplaceAll(texts, "If you have the tool append_payload", ""), "append_payload")
		})
	}
}

// TestMaxRunning checks that a contract beyond the limit is refused, and that a stopped contract does not count, even while
// its agent still exists.
func TestMaxRunning(t *testing.T) {
	t.Parallel()
	s, h, models, _ := newLifecycle(t, lifecycle.Config{Place: "cagent", Driver: "cagent", Model: "openai/gpt-5", MaxRunning: 1})
	deletions := models.Hold(fake.Delete)
	first, err := s.Start(h.Context(), lifecycle.StartRequest{Contract: "wait gate"})
	require.NoError(t, err)
	_, err = s.Start(h.Context(), lifecycle.StartRequest{Contract: "wait gate"})
	require.Equal(t, fleet.ReasonLimitReached, fleet.ReasonOf(err))
	require.ErrorContains(t, err, "1 running contracts")
	_, err = s.Stop(h.Context(), first.ID)
	require.NoError(t, err)
	<-deletions.Arrived()
	_, err = s.Start(h.Context(), lifecycle.StartRequest{Contract: "wait gate"})
	require.NoError(t, err)
	deletions.Open()
}
