package app

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/toolset/subagents"
)

// configureTestSubagents makes the subagents of testdata/agents run at the fake place, without environment variables.
func configureTestSubagents(c *subagents.Config) {
	c.Dir, c.Local = filepath.Join("..", "..", "testdata", "agents"), "fake"
	c.Lookup = func(string) (string, bool) { return "", false }
}

func TestSubagentSettings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"subagents: {directory: x}":         `fleet.yaml:1: unknown key "directory"`,
		"subagents: {timeout: -1s}":         "subagents.timeout is -1s",
		"subagents: {max_depth: 11}":        "subagents.max_depth is 11: it must be from 1 to 10",
		"subagents: {output_retries: 1000}": "subagents.output_retries is 1000",
	} {
		_, err := Load(writeConfig(t, text), nil, nil)
		require.ErrorContains(t, err, want, text)
	}
	c, err := Load(writeConfig(t, "subagents: {dir: agents, timeout: 5m, max_depth: 1, output_retries: -1}"), nil, nil)
	require.NoError(t, err)
	require.Equal(t, subagents.Settings{Dir: "agents", Timeout: 5 * time.Minute, MaxDepth: 1, Retries: -1}, c.Subagents)
}
