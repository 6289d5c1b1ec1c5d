package local_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestClaudeRetriesFailedChecks checks that the next turn of the conversation receives the results of failed checks. If
// the agent has lost its conversation, it must receive its task again.
func TestClaudeRetriesFailedChecks(t *testing.T) {
	t.Parallel()
	w, a := newClaudeAgent(t)
	w.script("s-1", "", claudeInit, claudeDone)
	w.mustRun(a, "fix the login")

	retry := newRun("fix the login")
	retry.Feedback, retry.Continues = "$ go test ./...\nno compiler", true
	_, o := w.execute(a, retry)
	require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
	require.Contains(t, w.argv(), "s-1")
	require.Equal(t, retry.Feedback, w.prompt())

	b := w.provisionIn("claude")
	w.script("s-2", "", claudeInit, claudeDone)
	runWithoutConversation := newRun("fix the login")
	runWithoutConversation.Feedback = retry.Feedback
	_, o = w.execute(b, runWithoutConversation)
	require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
	require.Equal(t, "fix the login\n\n"+retry.Feedback, w.prompt())
}
