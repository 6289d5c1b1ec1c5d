package service

import (
	"context"
	"errors"
	"unicode/utf8"

	"fleet/internal/fleet"
)

// These are sizes of a page of a patch, in bytes.
const (
	DefaultPatchSize = 64 << 10
	MaxPatchSize     = 1 << 20
)

// TaskChanges returns the changes of the task. The error is CHANGES_NOT_FOUND if they are not known, for example because
// the task is running.
func (s *Service) TaskChanges(ctx context.Context, id string) (*fleet.Changes, error) {
	c, _, err := s.taskChanges(ctx, id)
	return c, err
}

// PatchRequest selects a part of a task's patch.
type PatchRequest struct {
	TaskID, Path  string // Path "" means all files
	Offset, Limit int    // Limit 0 means DefaultPatchSize
}

// TaskPatch returns a part of the patch, and whether more follows. It does not split UTF-8 characters.
func (s *Service) TaskPatch(ctx context.Context, r PatchRequest) (c *fleet.Changes, text []byte, more bool, err error) {
	c, a, err := s.taskChanges(ctx, r.TaskID)
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
	text, more, err = s.places.Of(a).Connect(*a).Patch(ctx, *c, r.Path, int64(r.Offset), max(limit, utf8.UTFMax))
	if e, ok := errors.AsType[*fleet.Error](err); ok && e.Reason == fleet.ReasonChangesNotFound {
		err = e.With("task_id", fleet.Shorten(r.TaskID, 60))
	}
	if err != nil || !more {
		return c, text, more, err
	}
	for i := len(text) - 1; i > 0 && i >= len(text)-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				text = text[:i]
			}
			break
		}
	}
	return c, text, true, nil
}

func (s *Service) taskChanges(ctx context.Context, id string) (c *fleet.Changes, a *fleet.Agent, err error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, nil, err
	}
	if id == "" {
		return nil, nil, errNoTaskID()
	}
	err = s.store.View(ctx, func(tx fleet.ReadTx) error {
		t, err := s.task(tx, p, id, fleet.AccessView)
		if err != nil {
			return err
		}
		if c, err = tx.Changes(t.ID); err != nil {
			return err
		}
		if c == nil {
			why, next := "its agent does not work in a repository that Fleet can look at", ""
			switch {
			case t.Terminal:
				why = "its output was read from a terminal, so its repository was not examined"
			case t.Active():
				why, next = "it has not ended", "{wait_tasks} waits for that"
			}
			return fleet.Errorf(fleet.ReasonChangesNotFound, "the changes of the task %s are not known: %s", t.ID, why).Next(next).With("task_id", t.ID)
		}
		a, err = tx.Agent(t.AgentUID)
		return err
	})
	return c, a, err
}
