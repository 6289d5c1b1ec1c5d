package fleet_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// usageStep returns a step for a request to the model, by the main agent or by the subagent of the tool call parent.
func usageStep(model, parent string, in, out int64, cost float64) *fleet.Step {
	return &fleet.Step{Type: fleet.StepUsage, Parent: parent, Usage: &fleet.RequestUsage{Model: model, Input: in, CacheRead: 10, Output: out, CostUSD: cost}}
}

// price is a price list with one model, known.
func price(model string) (fleet.Price, bool) {
	return fleet.Price{Input: 1, Output: 10, ContextWindow: 1000}, model == "known"
}

// TestSpending checks what steps and the end of a run add to the cost and the usage of a task.
func TestSpending(t *testing.T) {
	t.Parallel()
	newRunningTask := func() *fleet.Task {
		task := &fleet.Task{}
		task.AddStep(usageStep("known", "", 90, 20, 0), price)
		task.AddStep(usageStep("known", "call", 40, 10, 0), price) // a subagent
		task.AddStep(&fleet.Step{Type: fleet.StepDenied}, price)
		return task
	}
	const pricedUSD = (90*1 + 20*10 + 40*1 + 10*10) / 1e6
	task := newRunningTask()
	require.InDelta(t, pricedUSD, task.CostUSD, 1e-12)
	require.Equal(t, fleet.Usage{Model: "known", InputTokens: 150, OutputTokens: 30}, task.Usage)
	require.Equal(t, 1, task.Turns, "a subagent takes no turn of the conversation")
	require.Equal(t, fleet.CostPriced, task.Spending.Basis)
	require.EqualValues(t, 120, task.Spending.ContextTokens)
	require.EqualValues(t, 1000, task.Spending.ContextWindow)
	require.Equal(t, 1, task.Spending.DeniedCalls)
	require.Len(t, task.Spending.Models, 1)
	require.Equal(t, 2, task.Spending.Models[0].Requests)
	require.InDelta(t, pricedUSD, task.Spending.Models[0].CostUSD, 1e-12)

	// What the program reports replaces what the steps have said.
	task.AddUsage(fleet.Outcome{CostUSD: 0.5, Turns: 3, Usage: fleet.Usage{Model: "known", InputTokens: 200, OutputTokens: 50, ToolCalls: 2}})
	require.InDelta(t, 0.5, task.CostUSD, 1e-12)
	require.Equal(t, fleet.CostReported, task.Spending.Basis)
	require.Equal(t, fleet.Usage{Model: "known", InputTokens: 200, OutputTokens: 50, ToolCalls: 2}, task.Usage)
	require.Equal(t, 3, task.Turns)
	require.Zero(t, task.Spending.Run)
	task.AddStep(usageStep("known", "", 90, 0, 0), price) // the next try
	task.AddUsage(fleet.Outcome{CostUSD: 0.25, Turns: 1, Usage: fleet.Usage{InputTokens: 100}})
	require.InDelta(t, 0.75, task.CostUSD, 1e-12)
	require.EqualValues(t, 300, task.Usage.InputTokens)
	require.Equal(t, 4, task.Turns)

	// A program that was killed reports nothing, or only a part.
	task = newRunningTask()
	task.AddUsage(fleet.Outcome{})
	require.InDelta(t, pricedUSD, task.CostUSD, 1e-12)
	require.EqualValues(t, 150, task.Usage.InputTokens)
	require.Equal(t, fleet.CostPriced, task.Spending.Basis)
	task = newRunningTask()
	task.AddUsage(fleet.Outcome{CostUSD: pricedUSD / 2, CostPartial: true})
	require.InDelta(t, pricedUSD, task.CostUSD, 1e-12)

	// A model without a price makes the cost unknown, unless the program reports it.
	task = newRunningTask()
	task.AddStep(usageStep("new", "", 1, 1, 0), price)
	task.AddStep(usageStep("new", "", 1, 1, 0.01), price)
	require.Equal(t, fleet.CostUnknown, task.Spending.Basis)
	require.InDelta(t, pricedUSD+0.01, task.CostUSD, 1e-12)
	task.AddUsage(fleet.Outcome{CostUSD: 1})
	require.Equal(t, fleet.CostReported, task.Spending.Basis)
	task = &fleet.Task{}
	task.AddStep(usageStep("new", "", 1, 1, 0.01), price)
	require.Equal(t, fleet.CostReported, task.Spending.Basis)
}

// TestContextOfTurns checks that the sum of a turn's requests does not count as the length of the conversation.
func TestContextOfTurns(t *testing.T) {
	t.Parallel()
	task := &fleet.Task{}
	turn := usageStep("known", "", 9000, 4500, 0)
	turn.Usage.Turn = true
	task.AddStep(turn, price)
	require.Zero(t, task.Spending.ContextTokens)
	turn.Usage.ContextTokens, turn.Usage.ContextWindow = 1500, 200000
	task.AddStep(turn, price)
	require.EqualValues(t, 1500, task.Spending.ContextTokens)
	require.EqualValues(t, 200000, task.Spending.ContextWindow)
}
