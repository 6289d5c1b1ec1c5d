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
	require.Equal(t, 1, c.OpenCount())
	begun, ended, result, failed := c.Update(json.RawMessage(`{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"completed","content":[{"type":"content","content":{"type":"text","text":"hi"}}]}`))
	require.Nil(t, begun)
	require.Equal(t, "bash", ended.Name)
	require.Equal(t, "hi", result)
	require.False(t, failed)
	require.Zero(t, c.OpenCount())
}

// TestCallOfGemini handles a call that Gemini CLI 0.61.0 first reports when it asks for a permission.
func TestCallOfGemini(t *testing.T) {
	c := NewCalls()
	begun, _, _, _ := c.Update(json.RawMessage(`{"sessionUpdate":"tool_call_update","toolCallId":"run_shell_command__c1","title":"rm x","kind":"execute","status":"pending","content":[]}`))
	require.Nil(t, begun)
	begun = c.Begin("run_shell_command__c1")
	require.Equal(t, []string{"run_shell_command", "run_shell_command: rm x"}, []string{begun.Name, begun.Text})
	require.Equal(t, 1, c.OpenCount())
	require.Equal(t, "run_shell_command: rm x", c.Deny("run_shell_command__c1").Text)
	require.Zero(t, c.OpenCount())
}

// TestEdits checks that a change is reported with the whole file if the program reports the whole file and the changed part.
// OpenCode reports the whole file first, and Claude Code reports the part first.
func TestEdits(t *testing.T) {
	part, whole := `[{"type":"diff","path":"a","oldText":"l2","newText":"L2"}]`, `[{"type":"diff","path":"/w/a","oldText":"l1\nl2\n","newText":"l1\nL2\n"}]`
	for _, updates := range [][]string{{whole, part}, {part, whole}} {
		c := NewCalls()
		for _, content := range updates {
			c.Update(json.RawMessage(`{"sessionUpdate":"tool_call_update","toolCallId":"c1","title":"edit","kind":"edit","status":"in_progress","content":` + content + `}`))
		}
		_, ended, result, _ := c.Update(json.RawMessage(`{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"completed","rawOutput":"Done."}`))
		require.Equal(t, "Done.", result)
		require.Equal(t, []Edit{{"/w/a", "l1\nl2\n", "l1\nL2\n"}}, ended.Edits)
	}
}

// TestCallOfSubagent handles a call that a subagent of Claude Code makes.
func TestCallOfSubagent(t *testing.T) {
	c := NewCalls()
	begun, _, _, _ := c.Update(json.RawMessage(`{"_meta":{"claudeCode":{"toolName":"Bash","parentToolUseId":"c1"}},"toolCallId":"c2","sessionUpdate":"tool_call","rawInput":{"command":"ls"},"status":"pending","title":"ls","kind":"execute"}`))
	require.Equal(t, []string{"Bash: ls", "c1"}, []string{begun.Text, begun.Parent})
}
