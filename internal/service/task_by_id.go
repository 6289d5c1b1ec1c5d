package service

import (
	"context"
	"unicode/utf8"

	"fleet/internal/fleet"
)

// errNoTaskID returns the error for a call that lacks the id of its task.
func errNoTaskID() *fleet.Error {
	return fleet.InvalidField("task_id", "task_id is required").Next("{start_agent_task} and {list_tasks} give ids")
}

// viewTask returns what read returns for the task, in a transaction. The error is TASK_NOT_FOUND if the caller may not see the
// task. id may be a prefix, see Service.task.
func viewTask[T any](ctx context.Context, s *Service, id string, read func(fleet.ReadTx, *fleet.Task) (T, error)) (result T, err error) {
	if id == "" {
		return result, errNoTaskID()
	}
	return viewAs(ctx, s.store, func(tx fleet.ReadTx, p fleet.Principal) (T, error) {
		t, err := s.task(tx, p, id, fleet.AccessView)
		if err != nil {
			return result, err
		}
		return read(tx, t)
	})
}

// The shortest and the longest prefix of the id of a task or a question that are accepted, in bytes.
const (
	MinIDPrefix = 6
	maxIDPrefix = 128
)

// task returns the task with the id. id may be a prefix if p may see only one task whose id begins with it. The error is
// TASK_NOT_FOUND if p may not see the task, and PERMISSION_DENIED if p may see it but does not have the needed access to its agent.
func (s *Service) task(tx fleet.ReadTx, p fleet.Principal, id string, needed fleet.Access) (*fleet.Task, error) {
	t, err := s.visibleTask(tx, p, id)
	if err != nil || p.OwnsAll(t.Owner) && !isLimitedToTree(p) {
		return t, err
	}
	access, err := accessToTask(tx, p, t)
	if err == nil && access == fleet.AccessNone { // the prefix matched a task of a share that has ended meanwhile
		err = errTaskNotFound(id)
	}
	if err == nil {
		err = requireAccessLevel(access, needed, t.AgentName, t.Owner)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// visibleTask does the work of task without the check of the needed access. A task that it finds by a prefix is visible according to
// the shares of the snapshot, which may be outdated.
func (s *Service) visibleTask(tx fleet.ReadTx, p fleet.Principal, id string) (*fleet.Task, error) {
	t, err := tx.Task(id)
	if err != nil {
		return nil, err
	}
	if t != nil {
		if access, err := accessToTask(tx, p, t); err != nil || access != fleet.AccessNone {
			return t, err
		}
	}
	if !isLimitedToTree(p) && len(id) >= MinIDPrefix && len(id) <= maxIDPrefix && utf8.ValidString(id) {
		f := fleet.TaskFilter{Projects: p.Projects}
		if !p.Admin() {
			f.Owner, f.SharedUIDs = p.Name, s.snap.Shares().SharedWith(p)
		}
		ids, err := tx.TaskIDs(id, f, 2)
		switch {
		case err != nil:
			return nil, err
		case len(ids) == 1:
			if t, err = tx.Task(ids[0]); err != nil || t != nil {
				return t, err
			}
		case len(ids) > 1:
			return nil, fleet.InvalidField("task_id", "the ids of several tasks begin with %q: give more of the id", id)
		}
	}
	return nil, errTaskNotFound(id)
}

func errTaskNotFound(id string) *fleet.Error {
	return fleet.Errorf(fleet.ReasonTaskNotFound, "task %q not found", fleet.Shorten(id, 60)).With("task_id", fleet.Shorten(id, 60)).Next("{list_tasks} shows the tasks and their ids")
}
