package acp

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCalls handles updates of opencode 1.18.33 about a command. The command's arguments arrive in the second update.
func TestCalls(t *testing.T) {
	c := NewCalls()
	begun, _, _, _ := c.Update(json.RawMessage(`{"sessionUpdate":"tool_call","toolCallId":"c1","title":"bash","kind":"execute","status":"pending","rawInput":{"cwd":"/w"}}`))
	require.Nil(t, begun)
	begun, _, _, _ = c.Update(json.RawMessage(`{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"in_progress","title":"echo hi","rawInput":{"command":"echo hi","cwd":"/w"}}`))
	require.Equal(t, "bash: echo hi", begun.Text)
	require.Equal(t, 1, c.Open())
	begun, ended, result, failed := c.Update(json.RawMessage(`{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"completed","content":[{"type":"content","content":{"type":"text","text":"hi"}}]}`))
	require.Nil(t, begun)
	require.Equal(t, "bash", ended.Name)
	require.Equal(t, "hi", result)
	require.False(t, failed)
	require.Zero(t, c.Open())
}
