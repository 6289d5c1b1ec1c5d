package npm

import (
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestClaudeRepositoryPermissions checks that Claude Code follows permissions.allow of the repository unless the role ignores
// them, and that bypassPermissions works in a confined agent, even if the server runs as root.
func TestClaudeRepositoryPermissions(t *testing.T) {
	repository, _ := newRepository(t, map[string]string{".claude/settings.json": `{"permissions":{"allow":["Bash(touch *)"]}}`})
	c := newClaudeFleetOn(t, newModel(t), repository,
		role{"name": "follows", "model": pricedModel, "default": true},
		role{"name": "ignores", "model": pricedModel, "repository_permissions": "ignore"},
		role{"name": "free", "model": pricedModel, "permission_mode": "bypassPermissions"},
	)
	for _, tc := range []struct {
		role, command string
		denied        bool
	}{
		{"follows", "touch made", false},
		{"follows", "chmod 600 made", true},
		{"ignores", "touch made", true},
		{"free", "chmod 700 .", false},
	} {
		name := tc.role + tc.command[:2]
		c.create(t, name, tc.role)
		id := c.start(t, name, name+": do it.", `model: tool Bash {"command":"`+tc.command+`"}`, "model: say Done")
		task := c.wait(t, id)
		require.Equal(t, fleetv1.Task_completed, task.GetStatus(), task.GetReason())
		results := c.requestsWith(name + ": do it.")[1].results()
		require.Len(t, results, 1)
		require.Equal(t, tc.denied, results[0].IsError, "%s: %+v", name, results[0])
	}
}
