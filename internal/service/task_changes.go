package service

import (
	"context"
	"errors"
	"slices"
	"unicode/utf8"

	"fleet/internal/fleet"
)

// Sizes of a page of a patch, in bytes.
const (
	DefaultPatchSize = 64 << 10
	MaxPatchSize     = 1 << 20
)

// ChangesSince says where changes begin.
type ChangesSince string

// The points at which changes can begin. The changes always end where the task ended.
const (
	SinceTask   ChangesSince = "task"   // where the task began
	SinceWork   ChangesSince = "work"   // where the work began, perhaps with an earlier task
	SinceReview ChangesSince = "review" // at the commit that the caller has reviewed last
)

// TaskChanges returns the changes of the task from the point that since names. The error is CHANGES_NOT_FOUND if they are not known,
// for example because the task is running, and NOT_REVIEWED for SinceReview if the caller has not reviewed the work.
func (s *Service) TaskChanges(ctx context.Context, id string, since ChangesSince) (*fleet.Changes, error) {
	c, a, begin, err := s.taskChanges(ctx, id, since)
	if err != nil || begin == c.Base || c.Problem != "" {
		return c, err
	}
	compared := &fleet.Changes{}
	if begin != c.Commit {
		if compared, err = s.places.Of(a).Connect(*a).Compare(ctx, begin, c.Commit); err != nil {
			return nil, withTaskID(err, id)
		}
	}
	c.Base, c.FileCount, c.Insertions, c.Deletions, c.FileChanges = begin, compared.FileCount, compared.Insertions, compared.Deletions, compared.FileChanges
	return c, nil
}

// withTaskID adds the id of the task to CHANGES_NOT_FOUND. It returns any other error as it is.
func withTaskID(err error, id string) error {
	if e, ok := errors.AsType[*fleet.Error](err); ok && e.Reason == fleet.ReasonChangesNotFound {
		return e.With("task_id", fleet.Shorten(id, 60))
	}
	return err
}

// PatchRequest selects a part of a task's patch.
type PatchRequest struct {
	TaskID, Path  string // Path "" means all files
	Since         ChangesSince
	Offset, Limit int // in bytes; Limit 0 means DefaultPatchSize
}

// TaskPatch returns the changes of the task, a part of their patch, and whether more of the patch follows. It does not split UTF-8
// characters. Its errors are those of TaskChanges.
func (s *Service) TaskPatch(ctx context.Context, r PatchRequest) (c *fleet.Changes, text []byte, more bool, err error) {
	c, a, begin, err := s.taskChanges(ctx, r.TaskID, r.Since)
	if err != nil {
		return nil, nil, false, err
	}
	if c.Problem != "" {
		return nil, nil, false, fleet.Errorf(fleet.ReasonChangesNotFound, "%s", c.Problem).With("task_id", fleet.Shorten(r.TaskID, 60))
	}
	limit := min(r.Limit, MaxPatchSize)
	if limit == 0 {
		limit = DefaultPatchSize
	}
	c.Base = begin
	text, more, err = s.places.Of(a).Connect(*a).Patch(ctx, *c, r.Path, int64(r.Offset), max(limit, utf8.UTFMax))
	if err != nil || !more {
		return c, text, more, withTaskID(err, r.TaskID)
	}
	return c, withoutBrokenEnd(text), true, nil
}

// taskChanges returns the changes of the task, its agent, and the commit at which the requested changes begin.
func (s *Service) taskChanges(ctx context.Context, id string, since ChangesSince) (c *fleet.Changes, a *fleet.Agent, begin string, err error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, nil, "", err
	}
	a, err = viewTask(ctx, s, id, func(tx fleet.ReadTx, t *fleet.Task) (*fleet.Agent, error) {
		if c, err = tx.Changes(t.ID); err != nil {
			return nil, err
		}
		if c == nil {
			why, next := "its agent does not work in a repository that Fleet can look at", ""
			switch {
			case t.Terminal:
				why = "its output was read from a terminal, so its repository was not examined"
			case t.Active():
				why, next = "it has not ended", "{wait_tasks} waits for that"
			}
			return nil, fleet.Errorf(fleet.ReasonChangesNotFound, "the changes of the task %s are not known: %s", t.ID, why).Next(next).With("task_id", t.ID)
		}
		if begin, err = beginCommit(tx, p, t, c, since); err != nil {
			return nil, err
		}
		return tx.Agent(t.AgentUID)
	})
	return c, a, begin, err
}

// beginCommit returns the commit at which the changes of the task begin. The error is NOT_REVIEWED for SinceReview if p has reviewed
// neither the task nor the earlier tasks of the work.
func beginCommit(tx fleet.ReadTx, p fleet.Principal, t *fleet.Task, c *fleet.Changes, since ChangesSince) (string, error) {
	l, err := landingOf(tx, t.ID)
	if err != nil || since == SinceTask || since == SinceWork && l == nil {
		return c.Base, err
	}
	if since == SinceWork {
		return l.Base, nil
	}
	taskIDs := []string{t.ID}
	if l != nil {
		taskIDs = append(slices.Clone(l.EarlierTasks), t.ID)
	}
	for _, id := range slices.Backward(taskIDs) {
		all, err := tx.Reviews(id)
		if err != nil {
			return "", err
		}
		for _, r := range slices.Backward(all) {
			if r.By == p.Name {
				return r.Head, nil
			}
		}
	}
	return "", fleet.Errorf(fleet.ReasonNotReviewed, "you have reviewed neither the task %s nor the work that it goes on with", t.ID).
		Next("{review_task} reviews it").With("task_id", t.ID)
}
