package npm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestClaudeMessages checks that a busy agent gets a message exactly once, in the same turn, after the result of its tool,
// even if the server is killed before Claude Code has taken the message.
func TestClaudeMessages(t *testing.T) {
	c := newClaudeFleet(t, role{"name": "coder", "model": pricedModel, "allowed_tools": []string{"Bash"}})
	for agent, killed := range map[string]bool{"papi": false, "mami": true} {
		t.Run(agent, func(t *testing.T) {
			c.create(t, agent, "coder")
			work := c.workDir(t, agent)
			id := c.start(t, agent, "Work for "+agent+".", `model: tool Bash {"command":"touch begun; until [ -e go ]; do sleep 0.05; done"}`, "model: say Done")
			waitForFile(t, filepath.Join(work, "begun"))
			r, err := c.api.SendTaskMessage(t.Context(), &fleetv1.SendTaskMessageRequest{AgentName: agent, Message: "Also greet Bob."})
			require.NoError(t, err)
			require.Contains(t, r.GetMessage(), "as soon as it can accept it", "the agent must not have taken the message yet")
			if killed {
				c.kill(t)
				c.serve(t)
			}
			require.NoError(t, os.WriteFile(filepath.Join(work, "go"), nil, 0o600))
			task := c.wait(t, id)
			require.Equal(t, fleetv1.Task_completed, task.GetStatus(), task.GetReason())
			require.EqualValues(t, 2, task.GetTurns())
			requests := c.requestsWith("Work for " + agent + ".")
			require.Len(t, requests, 2, "the message must not start a turn of its own")
			require.Equal(t, 1, strings.Count(requests[1].conversationText(), "Also greet Bob."))
		})
	}
}
