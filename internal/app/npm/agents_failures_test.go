package npm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestAgentsFailures lets the model's API refuse the requests of each program, and checks how Fleet names the failures.
func TestAgentsFailures(t *testing.T) {
	for _, a := range agents {
		if len(a.codes) == 0 {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			c := newTeam(t, a)
			for answer, code := range a.codes {
				name := "agent-" + strings.NewReplacer(" ", "-", "[", "", "]", "", "_", "-").Replace(answer)
				c.create(t, name, "coder") // a new one, because a program repeats an unanswered prompt with the next prompt
				task := c.do(t, name, "Fail.", "model: refuse "+answer)
				t.Logf("%s: %s %s, %s", answer, task.GetReasonCode(), task.GetReason(), task.GetUsage())
				require.Equal(t, fleetv1.Task_failed, task.GetStatus(), answer)
				require.Equal(t, code, task.GetReasonCode(), answer)
			}
		})
	}
}
