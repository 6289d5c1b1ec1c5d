package npm

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestClaudeCost checks that the cost of a task is known while the task runs, and after its program, its supervisor or the
// server was killed. The cost must equal the price of the model's answers.
func TestClaudeCost(t *testing.T) {
	c := newClaudeFleet(t, role{"name": "coder", "model": pricedModel, "allowed_tools": []string{"Bash"}})
	for victim, kill := range map[string]func(*testing.T, string, string){
		"program": func(t *testing.T, agent, _ string) {
			require.NoError(t, syscall.Kill(c.claudePID(t, agent), syscall.SIGKILL))
		},
		"supervisor": func(t *testing.T, _, task string) { c.killSupervisor(t, task) },
		"server": func(t *testing.T, _, _ string) {
			c.kill(t)
			c.serve(t)
		},
	} {
		t.Run(victim, func(t *testing.T) {
			c.create(t, victim, "coder")
			id := c.start(t, victim, "Spend for the "+victim+".", `model: tool Bash {"command":"echo one"}`, `model: tool Bash {"command":"echo two"}`, "model: hang "+victim)
			g := c.waitAtGate(t, victim)
			answers := 0
			c.waitForEvent(t, id, func(e *fleetv1.Event) bool {
				if e.GetStep().GetUsage() != nil {
					answers++
				}
				return answers == 2
			})
			shown, err := c.api.ShowTask(t.Context(), &fleetv1.ShowTaskRequest{TaskId: id})
			require.NoError(t, err)
			task := shown.GetTask()
			require.Equal(t, fleetv1.Task_running, task.GetStatus())
			require.InDelta(t, 2*answerCost, task.GetCostUsd(), 1e-9)
			require.Equal(t, "priced", task.GetCostBasis())
			require.EqualValues(t, 2000, task.GetUsage().GetInputTokens())
			require.EqualValues(t, 1000, task.GetUsage().GetOutputTokens())
			require.EqualValues(t, 1500, task.GetContextTokens())
			require.EqualValues(t, 200_000, task.GetContextWindow())
			require.Len(t, task.GetModels(), 1)
			require.Equal(t, pricedModel, task.GetModels()[0].GetModel())
			usage, err := c.api.ShowUsage(t.Context(), &fleetv1.ShowUsageRequest{AgentName: victim})
			require.NoError(t, err)
			require.InDelta(t, 2*answerCost, usage.GetTotal().GetCostUsd(), 1e-9)

			kill(t, victim, id)
			want, status := 2*answerCost, fleetv1.Task_failed
			if victim == "server" { // the run continues
				close(g.open)
				want, status = 3*answerCost, fleetv1.Task_completed
			}
			task = c.wait(t, id)
			require.Equal(t, status, task.GetStatus(), task.GetReason())
			require.InDelta(t, want, task.GetCostUsd(), 1e-9)
			require.InDelta(t, 1000*want/answerCost, task.GetUsage().GetInputTokens(), 0.5)
		})
	}
}
