package runner

import (
	"context"
	"errors"

	"fleet/internal/fleet"
	"fleet/internal/runner/worktree"
)

// begin records the commit that the run begins at. Not knowing it keeps no run from its start.
func (w Agent) begin(ctx context.Context, r fleet.Run) {
	t, err := w.ws.Tree()
	if err == nil && t != nil {
		err = t.Git.Begin(ctx, t.Tree, t.UID, r.TaskID)
	}
	if err != nil && ctx.Err() == nil {
		w.home.log("the commit that the run %s begins at is not known: %v", r.TaskID, err)
	}
}

// Changes implements fleet.Runner. The tree is kept in the repository that the agent's working tree belongs to.
func (w Agent) Changes(ctx context.Context, r fleet.Run) (*fleet.Changes, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t, err := w.ws.Tree()
	if err != nil || t == nil {
		return nil, err
	}
	if given, err := settleClaim(w.home.run(r.TaskID)); err != nil || !given {
		return nil, err
	}
	if trouble := t.Trouble(); trouble != "" {
		return nil, fleet.Errorf(fleet.ReasonProvisioningFailed, "what the task changed is not known: %s", trouble)
	}
	c, err := t.Git.Snapshot(ctx, t.Tree, t.UID, r.TaskID)
	if err == nil || ctx.Err() != nil {
		return c, err
	}
	if said, ok := errors.AsType[*worktree.Error](err); ok {
		return nil, fleet.Errorf(fleet.ReasonProvisioningFailed, "what the task changed is not known: %s", said.Words)
	}
	return nil, HostError("what the task changed is not known", err)
}

// Patch implements fleet.Runner.
func (w Agent) Patch(ctx context.Context, c fleet.Changes, path string, offset int64, limit int) ([]byte, bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	t, err := w.ws.Tree()
	if err != nil {
		return nil, false, err
	}
	gone := fleet.Errorf(fleet.ReasonChangesNotFound, "the repository of agent %q does not have the changes any more", w.name)
	if t == nil {
		return nil, false, gone
	}
	text, more, err := t.Git.Patch(ctx, t.Repository, c.Base, c.Commit, path, offset, limit)
	if err != nil && ctx.Err() == nil {
		return nil, false, gone.WithCause(err)
	}
	return text, more, err
}
