package service

import (
	"context"
	"fmt"
	"time"

	"fleet/internal/fleet"
)

// DeleteAgent requests the deletion of the agent and its workspace, even if the agent is busy. It waits until the agent is deleted,
// at most state.Config.CreateWait. With keepUnsaved, the error is UNSAVED_WORK if the agent may have work that exists only in its
// workspace. The error is BACKEND_UNAVAILABLE if an attempt to delete the workspace has failed; Fleet tries again.
func (s *Service) DeleteAgent(ctx context.Context, ref string, keepUnsaved bool, requestID string) (*fleet.AgentView, string, error) {
	v, err := s.changeDesiredState(ctx, ref, requestID, s.deleteChange(keepUnsaved))
	if err != nil {
		return nil, "", err
	}
	v, err = s.waitForAgent(ctx, v.UID, s.cfg.CreateWait, func(v *fleet.AgentView) bool {
		return v.State == fleet.StateDeleted || v.Attempts > 0
	})
	if err != nil {
		return nil, "", err
	}
	switch {
	case v.State == fleet.StateDeleted && v.StateReason != "":
		return v, fmt.Sprintf("Agent '%s' deleted successfully; %s", v.Name, v.StateReason), nil
	case v.State == fleet.StateDeleted:
		return v, fmt.Sprintf("Agent '%s' deleted successfully", v.Name), nil
	case v.Attempts > 0:
		return nil, "", fleet.Errorf(fleet.ReasonBackendUnavailable, "agent %q is not deleted yet: %s. Fleet keeps trying", v.Name, reasonOrUnknown(v.StateReason)).
			With("agent_name", v.Name)
	}
	return v, fmt.Sprintf("Agent '%s' is being deleted: list_agents shows it until it is deleted", v.Name), nil
}

// deleteChange returns the change of DeleteAgent.
func (s *Service) deleteChange(keepUnsaved bool) desiredChange {
	d := desiredChange{method: "DeleteAgent", text: "deletion requested", args: keepUnsaved, change: func(v *fleet.AgentView) error {
		v.Desired = fleet.DesiredDeleted
		v.Attempts, v.RetryAt = 0, time.Time{}
		return nil
	}}
	if keepUnsaved {
		d.check = s.checkNoUnsavedWork
	}
	return d
}
