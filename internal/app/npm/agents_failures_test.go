package npm

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestAgentsFailures makes the model's API refuse the requests of each program, and checks the reason codes of the failed
// tasks. A program that shows its retries must have steps for them.
func TestAgentsFailures(t *testing.T) {
	for _, a := range agents {
		if len(a.failureCodes) == 0 {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			c := newAgentFleet(t, a)
			for i, answer := range slices.Sorted(maps.Keys(a.failureCodes)) {
				name := "agent-" + strconv.Itoa(i)
				c.create(t, name, "coder") // a new agent, because a program sends an unanswered prompt again with the next prompt
				start := time.Now()
				task := c.runTask(t, name, "Fail.", "model: refuse "+answer)
				t.Logf("%s: %s after %s: %s", answer, task.GetReasonCode(), time.Since(start).Round(time.Second), task.GetReason())
				require.Equal(t, fleetv1.Task_failed, task.GetStatus(), answer)
				require.Equal(t, a.failureCodes[answer], task.GetReasonCode(), answer)
				if a.retryAnswer != answer {
					continue
				}
				r, err := c.api.ListTaskSteps(t.Context(), &fleetv1.ListTaskStepsRequest{TaskId: task.GetId(), Kinds: []fleetv1.StepKind{fleetv1.StepKind_retry}})
				require.NoError(t, err)
				require.NotEmpty(t, r.GetSteps(), "the task must show that the program repeats the request")
			}
		})
	}
}
