package service

import (
	"context"

	"fleet/internal/fleet"
)

// checkNoUnsavedWork returns UNSAVED_WORK if the agent may have work that exists only in its workspace.
func (s *Service) checkNoUnsavedWork(ctx context.Context, v *fleet.AgentView) error {
	what, err := s.unsavedWork(ctx, v)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		what = "Fleet cannot tell what exists only there: " + fleet.PublicMessage(err)
	case what == "":
		return nil
	}
	return fleet.Errorf(fleet.ReasonUnsavedWork, "agent %q is not deleted, because it may have work that exists only in its workspace: %s", v.Name, what).
		Next("save this work, or delete the agent without keep_unsaved").With("agent_name", v.Name)
}

// unsavedWork returns a description for people of the work that may exist only in the agent's workspace; empty if there is none.
func (s *Service) unsavedWork(ctx context.Context, v *fleet.AgentView) (what string, err error) {
	place := s.places.Of(&v.Agent)
	switch {
	case v.Task != nil:
		return "its task is not over", nil
	case v.WorkspaceID == "":
		return "", nil
	}
	if e, ok := place.Place.(fleet.Examiner); ok {
		if what, err := e.UnsavedWork(ctx, v.Agent); fleet.ReasonOf(err) != fleet.ReasonUnimplemented {
			return what, err
		}
	}
	content, err := s.places.Bundle(ctx, &v.Agent)
	if err != nil || len(content) == 0 {
		return "", err
	}
	return "commits that no remote has, or changes that it did not commit", nil
}
