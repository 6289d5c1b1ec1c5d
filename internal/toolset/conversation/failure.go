package conversation

import "fleet/internal/fleet"

// Failure returns the reason why a task did not complete, and a text for people. The text continues a sentence whose
// subject is the agent.
func Failure(t *fleet.Task) (fleet.Reason, string) {
	switch {
	case t.Status == fleet.TaskStopped:
	case t.ReasonCode == fleet.CodeChecksFailed:
		return fleet.ReasonChecksFailed, t.Failure()
	case t.Timeout > 0 && t.EndedAt.Sub(t.StartedAt) >= t.Timeout: // only the timeout ends a task this late
		return fleet.ReasonTaskTimedOut, "was too slow: " + t.Reason
	}
	return fleet.ReasonTaskFailed, t.Failure()
}
