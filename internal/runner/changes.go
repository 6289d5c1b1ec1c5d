package runner

import (
	"context"
	"errors"

	"fleet/internal/fleet"
	"fleet/internal/runner/worktree"
)

// recordBase records the commit at which the run starts. It logs an error and does not return it, because the run must start
// anyway.
func (a Agent) recordBase(ctx context.Context, r fleet.Run) {
	t, err := a.ws.Tree()
	if err == nil && t != nil {
		err = t.Git.Begin(ctx, t.Tree, r.TaskID)
	}
	if err != nil && ctx.Err() == nil {
		a.home.log("cannot record the base commit of the run %s: %v", r.TaskID, err)
	}
}

// Changes implements fleet.Runner. The snapshot is stored in the repository to which the agent's working tree belongs.
func (a Agent) Changes(ctx context.Context, r fleet.Run) (*fleet.Changes, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t, err := a.ws.Tree()
	if err != nil || t == nil {
		return nil, err
	}
	if claimed, err := settleUnclaimed(a.home.run(r.TaskID)); err != nil || !claimed {
		return nil, err
	}
	c, err := t.Git.Snapshot(ctx, t.Tree, r.TaskID) // may succeed although nobody can work in the tree any more
	if err == nil || ctx.Err() != nil {
		return c, err
	}
	if problem := t.Problem(); problem != "" {
		return nil, fleet.Errorf(fleet.ReasonProvisioningFailed, "cannot read the task's changes: %s", problem).WithCause(err)
	}
	if gitErr, ok := errors.AsType[*worktree.Error](err); ok {
		return nil, fleet.Errorf(fleet.ReasonProvisioningFailed, "cannot read the task's changes: %s", gitErr.Message)
	}
	return nil, HostError("cannot read the task's changes", err)
}

// Compare implements fleet.Runner.
func (a Agent) Compare(ctx context.Context, base, commit string) (c *fleet.Changes, err error) {
	err = a.readCommits(ctx, func(t *Tree) error {
		c, err = t.Git.Compare(ctx, t.Repository, base, commit)
		return err
	})
	return c, err
}

// Patch implements fleet.Runner.
func (a Agent) Patch(ctx context.Context, c fleet.Changes, path string, offset int64, limit int) (text []byte, more bool, err error) {
	err = a.readCommits(ctx, func(t *Tree) error {
		text, more, err = t.Git.Patch(ctx, t.Repository, c.Base, c.Commit, path, offset, limit)
		return err
	})
	return text, more, err
}

// readCommits calls read with the agent's repository, and translates the error. The agent may have been deleted.
func (a Agent) readCommits(ctx context.Context, read func(*Tree) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t, err := a.ws.Tree()
	if err != nil {
		return err
	}
	notFound := fleet.Errorf(fleet.ReasonChangesNotFound, "the repository of agent %q no longer has the changes", a.name)
	if t == nil {
		return notFound
	}
	if err = read(t); err == nil || ctx.Err() != nil {
		return err
	}
	if errors.Is(err, worktree.ErrNoCommit) {
		return notFound.WithCause(err)
	}
	if gitErr, ok := errors.AsType[*worktree.Error](err); ok {
		return fleet.Errorf(fleet.ReasonProvisioningFailed, "git cannot show the changes: %s", gitErr.Message)
	}
	return HostError("cannot show the changes", err)
}
