package npm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestClaudeLimits checks the effort, the limit of turns and the cost limit of roles.
func TestClaudeLimits(t *testing.T) {
	c := newClaudeFleet(t,
		role{"name": "quick", "default": true, "model": "claude-sonnet-5", "effort": "low"},
		role{"name": "short", "model": pricedModel, "max_turns": 2, "allowed_tools": []string{"Bash(echo *)"}},
		role{"name": "cheap", "model": pricedModel, "max_cost_usd": answerCost / 2, "allowed_tools": []string{"Bash(echo *)"}},
	)
	work := []string{`model: tool Bash {"command":"echo one"}`, `model: tool Bash {"command":"echo two"}`, `model: tool Bash {"command":"echo three"}`, "model: say Done"}
	for _, role := range []string{"quick", "short", "cheap"} {
		c.create(t, role, role)
	}
	require.Equal(t, "Hello", c.runTask(t, "quick", "Greet.", "model: say Hello").GetSummary())
	require.Equal(t, "low", c.requestsWith("Greet.")[0].Output.Effort)

	for agent, want := range map[string]struct {
		code     string
		requests int
	}{"short": {"MAX_TURNS", 2}, "cheap": {"BUDGET", 1}} {
		task := c.runTask(t, agent, strings.Join(append([]string{"Work as " + agent + "."}, work...), "\n"))
		require.Equal(t, fleetv1.Task_failed, task.GetStatus(), agent)
		require.Equal(t, want.code, task.GetReasonCode(), task.GetReason())
		require.Len(t, c.requestsWith("Work as "+agent+"."), want.requests, agent)
	}
}
