package acp

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestClaudeMeta checks that only the adapter of Claude Code gets its settings, and that they have the rules that deny calls.
func TestClaudeMeta(t *testing.T) {
	j := &Job{Policy: Policy{Deny: []string{"Bash(rm *)"}}}
	require.Nil(t, j.claudeMeta("gemini-cli"))
	claude, ok := j.claudeMeta("@agentclientprotocol/claude-agent-acp")["claudeCode"].(map[string]any)
	require.True(t, ok)
	options, ok := claude["options"].(map[string]any)
	require.True(t, ok)
	require.Equal(t, j.Policy.Deny, options["disallowedTools"])
	require.Equal(t, false, options["promptSuggestions"])
	require.NotEmpty(t, claude["emitRawSDKMessages"])
}
