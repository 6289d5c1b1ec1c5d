package service_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
)

// TestFailedWorkNeedsApproval checks that the work of a failed task lands only while the newest verdict on it is an approval. A comment is
// not a verdict.
func TestFailedWorkNeedsApproval(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, landingPlace(), nil)
	h.Create("agent-1")
	task := h.WaitTask(h.Start("agent-1", "change a.txt x\nfail out of luck").ID)
	require.Equal(t, fleet.TaskFailed, task.Status)
	review := func(verdict fleet.Verdict) {
		_, _, err := h.ReviewTask(h.Context(), fleet.Review{TaskID: task.ID, Verdict: verdict, Text: "I have seen it"}, "")
		require.NoError(t, err)
	}
	land := func() error {
		_, err := h.LandTasks(h.Context(), service.LandRequest{TaskIDs: []string{task.ID}})
		return err
	}
	require.Equal(t, fleet.ReasonTaskFailed, fleet.ReasonOf(land()))
	review(fleet.VerdictComment)
	require.Equal(t, fleet.ReasonTaskFailed, fleet.ReasonOf(land()))
	review(fleet.VerdictApprove)
	review(fleet.VerdictComment)
	require.NoError(t, land())
	require.Equal(t, fleet.LandingLanded, landings(h, task.ID)[0].State)
}
