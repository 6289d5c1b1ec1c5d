package npm

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestClaudeRepositoryPermissions checks that Claude Code follows permissions.allow of the repository unless the role ignores
// them, and that bypassPermissions works in a confined agent, also of a server that runs as root.
func TestClaudeRepositoryPermissions(t *testing.T) {
	repository := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(repository, ".claude"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(repository, ".claude", "settings.json"), []byte(`{"permissions":{"allow":["Bash(touch *)"]}}`), 0o644))
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "settings"}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = repository
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	c := newCrewOn(t, newModel(t), repository,
		role{"name": "follows", "model": priced, "default": true},
		role{"name": "ignores", "model": priced, "repository_permissions": "ignore"},
		role{"name": "free", "model": priced, "permission_mode": "bypassPermissions"},
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
