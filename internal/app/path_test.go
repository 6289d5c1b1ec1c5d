package app

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPathsOfSettings checks that ~ and relative paths mean the same in settings of several sections.
func TestPathsOfSettings(t *testing.T) {
	t.Parallel()
	c, err := Load(writeConfig(t, `
data: ~/data
coder: {token_file: ~/token}
metrics_token_file: ~/metrics
metrics: 127.0.0.1:0
subagents: {dir: agents}
sessions: {agents_dir: ~, directories: [~/src, rel/dir, /abs]}
`), nil, nil)
	require.NoError(t, err)
	c.Sessions.AgentsDir = "~" // in YAML, ~ without quotes is null
	given := c.Sessions.Directories[0]
	c2, err := c.withPaths()
	require.NoError(t, err)
	home, err := os.UserHomeDir()
	require.NoError(t, err)
	here, err := os.Getwd()
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(home, "data"), filepath.Join(home, "token"), filepath.Join(here, "agents"), home, filepath.Join(home, "metrics")},
		[]string{c2.Data, c2.Coder.TokenFile, c2.Subagents.Dir, c2.Sessions.AgentsDir, c2.MetricsTokenFile})
	require.Equal(t, []string{filepath.Join(home, "src"), filepath.Join(here, "rel", "dir"), "/abs"}, c2.Sessions.Directories)
	require.Equal(t, given, c.Sessions.Directories[0], "withPaths must not change the original configuration")
	empty, err := Config{}.withPaths()
	require.NoError(t, err)
	require.Equal(t, Config{}, empty)
}
