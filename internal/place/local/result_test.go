package local_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
)

// TestResults checks that the files of an agent without a repository are kept for the time in the agent's
// configuration.
func TestResults(t *testing.T) {
	t.Parallel()
	w := newTestPlace(t, nil)
	a := w.provision(configuredAgent(fleet.AgentConfig{Driver: "shell", KeepFilesFor: time.Hour}))
	ws, err := w.Inspect(w.ctx, a)
	require.NoError(t, err)
	dir := ws.Location
	w.mustRun(a, "pwd; mkdir sub; echo made >sub/file; chmod 500 sub")
	require.Equal(t, "made\n", readFile(t, filepath.Join(dir, "sub", "file")))
	// The agent could have changed its record, so Delete must not trust the record.
	other := t.TempDir()
	record := w.home(a, "agent.json")
	require.NoError(t, os.WriteFile(record, []byte(strings.ReplaceAll(readFile(t, record), dir, other)), 0o600))
	for range 2 { // the second call is like a call after a crash
		kept := w.remove(a)
		if kept != "" {
			require.Contains(t, kept, dir)
		}
	}
	require.DirExists(t, other)
	require.NoError(t, w.Tidy(w.ctx, time.Now().Add(59*time.Minute)))
	require.Equal(t, "made\n", readFile(t, filepath.Join(dir, "sub", "file")))
	require.NoError(t, w.Tidy(w.ctx, time.Now().Add(61*time.Minute)))
	left, err := os.ReadDir(filepath.Dir(dir))
	require.NoError(t, err)
	require.Empty(t, left)

	a = w.provision(configuredAgent(fleet.AgentConfig{Driver: "shell", KeepFilesFor: time.Hour}))
	w.runTask(a, "mkdir -p an/empty/tree")
	kept := w.remove(a)
	require.Empty(t, kept)
	left, err = os.ReadDir(filepath.Dir(dir))
	require.NoError(t, err)
	require.Empty(t, left, "an agent without files must leave no results")
}

// TestEditPermissions checks that MayEdit does not override the permissions of the agent's role or the tools in its
// configuration.
func TestEditPermissions(t *testing.T) {
	t.Parallel()
	const flag = "--permission-mode acceptEdits"
	for name, tc := range map[string]struct {
		role        local.Role
		agentConfig fleet.AgentConfig
		want        bool
	}{
		"by configuration":                {agentConfig: fleet.AgentConfig{Driver: "claude", MayEdit: true}, want: true},
		"by configuration with a list":    {agentConfig: fleet.AgentConfig{Driver: "claude", MayEdit: true, Allow: []string{"Read"}}},
		"by configuration without edits":  {agentConfig: fleet.AgentConfig{Driver: "claude"}},
		"in a project":                    {agentConfig: fleet.AgentConfig{MayEdit: true}, want: true},
		"in a project with tools":         {role: local.Role{Tools: []string{"Read"}}, agentConfig: fleet.AgentConfig{MayEdit: true}},
		"in a project with allowed tools": {role: local.Role{AllowedTools: []string{"Read"}}, agentConfig: fleet.AgentConfig{MayEdit: true}},
		"in a project with a mode":        {role: local.Role{PermissionMode: "plan"}, agentConfig: fleet.AgentConfig{MayEdit: true}},
		"in a project, as an agent of it": {agentConfig: fleet.AgentConfig{Reports: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newClaudePlace(t, tc.role)
			a := configuredAgent(tc.agentConfig)
			if tc.agentConfig.Driver == "" {
				a.Project, a.Role = "claude", "coder"
			}
			w.provision(a)
			w.script("s-1", "", claudeInit, claudeSays, claudeDone)
			w.runTask(a, "go")
			require.Equal(t, tc.want, strings.Contains(strings.Join(w.argv(), " "), flag), w.argv())
		})
	}
}
