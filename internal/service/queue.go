package service

import (
	"context"
	"slices"
	"time"

	"fleet/internal/fleet"
)

// QueueTaskRequest describes a task that starts as soon as it can. Exactly one of Agent, Pool and Project is set: an agent, a pool, or
// a project with an optional role.
type QueueTaskRequest struct {
	StartTaskRequest
	Pool          string
	Project, Role string
	NewAgent      bool             // a new agent with the role works on it, and is deleted after MaxIdle without a task
	MaxIdle       time.Duration    // 0: fleet.DefaultMaxIdle; only with NewAgent
	Entry         fleet.QueueEntry // without the target and the principal
	Hold          bool             // see HoldTask
	// Wake and OnParentEnd are only for a task that an agent delegates; empty: fleet.WakeAll and fleet.ParentEndStop.
	Wake        string
	OnParentEnd fleet.ParentEndAction

	delegated    bool   // by an agent
	conversation string // the agent's conversation in which it runs; empty: the agent's last one, or a new one in a pool
}

// QueueTask adds a task to the queue. The task is pending until nothing prevents it from starting, and then starts by itself.
func (s *Service) QueueTask(ctx context.Context, r QueueTaskRequest) (*fleet.Task, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	r.delegated = p.AgentUID != ""
	r.Attachments = withMediaTypes(r.Attachments)
	if err := s.checkQueueRequest(r); err != nil {
		return nil, err
	}
	r.Options.Attachments = len(r.Attachments)
	if err := s.queue.Refresh(ctx); err != nil {
		return nil, err
	}
	c := Call{Method: "QueueTask", RequestID: r.RequestID, Body: []any{r.callBody(), r.Pool, r.Project, r.Role, r.NewAgent, r.MaxIdle, r.Entry, r.Hold, r.Wake, r.OnParentEnd}}
	find := s.findAssignee
	if r.delegated {
		if !p.Grant.Allows(fleet.ActStart) {
			return nil, errMayNotDelegate()
		}
		find = s.delegatedAssignee
	}
	if ctx, p, err = s.resolveCaller(ctx, p, &c); err != nil {
		return nil, err
	}
	to, err := find(ctx, p, r)
	c.Refusal = err
	task, err := s.onceTask(ctx, c, func(tx fleet.Tx, p fleet.Principal) (*fleet.Task, error) { return s.queueTask(ctx, tx, p, to, r) })
	if err != nil {
		return nil, err
	}
	return asQueued(task), nil
}

// asQueued returns a copy of the task as it was when it was queued, so that a repeated call gets the same response.
func asQueued(t *fleet.Task) *fleet.Task {
	queued := asStarted(t)
	queued.Status, queued.StartedAt = fleet.TaskPending, time.Time{}
	return queued
}

// checkQueueRequest returns INVALID_ARGUMENT if a value of the request is not valid for any agent.
func (s *Service) checkQueueRequest(r QueueTaskRequest) error {
	if err := s.checkTaskRequest(r.StartTaskRequest); err != nil {
		return err
	}
	switch {
	case r.Agent == "" && r.Pool == "" && r.Project == "":
		return fleet.InvalidField("agent_name", "nothing says where the task runs: give agent_name, pool, or project")
	case r.Agent != "" && r.Pool != "":
		return fleet.InvalidField("pool", "agent_name and pool are both given: give one of them")
	case r.Project != "" && (r.Agent != "" || r.Pool != ""):
		return fleet.InvalidField("project", "project is given besides agent_name or pool: give one of them")
	case r.Role != "" && r.Project == "":
		return fleet.InvalidField("role", "role needs project: the agent or the pool has its own role")
	case r.NewAgent && r.Project == "":
		return fleet.InvalidField("new_agent", "new_agent needs project, in which the agent is created")
	case !r.delegated && r.Wake != "":
		return fleet.InvalidField("wake", "wake is given, but no agent delegates this task: leave it out")
	case !r.delegated && r.OnParentEnd != "":
		return fleet.InvalidField("on_parent_end", "on_parent_end is given, but no agent delegates this task: leave it out")
	case r.MaxIdle < 0 || r.MaxIdle > fleet.MaxPoolIdle:
		return fleet.InvalidField("max_idle_seconds", "max_idle_seconds is %d: give 1 to %d", int64(r.MaxIdle.Seconds()), int64(fleet.MaxPoolIdle.Seconds()))
	}
	return r.Entry.Validate(s.now())
}

// queueTask adds the task of the checked request and its queue entry to the store. It adds a new agent too if the assignee is one.
func (s *Service) queueTask(ctx context.Context, tx fleet.Tx, p fleet.Principal, to assignee, r QueueTaskRequest) (*fleet.Task, error) {
	a, err := s.assigneeForUpdate(ctx, tx, p, to)
	if err != nil {
		return nil, err
	}
	if err := s.checkSupported(p, a, r.StartTaskRequest); err != nil {
		return nil, err
	}
	if err := s.admitPending(ctx, tx, p, a, attachmentsSize(r.Attachments)+len(r.Description)); err != nil {
		return nil, err
	}
	e := r.Entry
	e.Target, e.By, e.Kind, e.Scope, e.UnconfinedIn = to.target, p.Name, p.Kind, p.Scope, p.UnconfinedIn
	if r.Hold {
		e.HeldBy, e.HeldAt = p.Name, s.now()
	}
	task, err := s.requestedTask(ctx, p, a, r.StartTaskRequest)
	if err != nil {
		return nil, err
	}
	task.Status, task.StartedAt, task.Project, task.Delegation.Conversation = fleet.TaskPending, time.Time{}, a.Project, r.conversation
	if isDelegating(p) {
		if task.Delegation.Wake, err = fleet.ParseWake(r.Wake); err != nil {
			return nil, err
		}
		task.ParentID, task.Delegation.Detached = p.TaskID, r.OnParentEnd == fleet.ParentEndDetach
	}
	if e.Dependencies, err = s.resolveDependencies(tx, p, task, e.Dependencies); err != nil {
		return nil, err
	}
	if err := s.insertRequestedTask(tx, p, a, task, r.StartTaskRequest); err != nil {
		return nil, err
	}
	return task, tx.Put(task.ID, &e)
}

// admitPending returns LIMIT_REACHED if p has as many pending tasks as it may have, or if the bytes would exceed a limit of stored
// bytes.
func (s *Service) admitPending(ctx context.Context, tx fleet.Tx, p fleet.Principal, a *fleet.Agent, bytes int) error {
	if pending := s.queue.Pending(p.Name); pending >= fleet.MaxPending {
		return fleet.LimitReached("pending tasks", "you have", int64(pending), fleet.MaxPending, "pending tasks", "{stop_task} stops one")
	}
	return admit(ctx, s.Limits(), tx, p, a.Owner, increase{bytes: bytes, project: a.Project})
}

// resolveDependencies returns the dependencies of the task with the full ids of their tasks. p must see these tasks. The error is
// INVALID_ARGUMENT if a dependency waits, directly or not, for the task itself, or is an ancestor that waits for the task or stops it
// when it ends itself.
func (s *Service) resolveDependencies(tx fleet.ReadTx, p fleet.Principal, task *fleet.Task, dependencies []fleet.Dependency) ([]fleet.Dependency, error) {
	dependencies = slices.Clone(dependencies)
	for i, dep := range dependencies {
		t, err := s.task(tx, p, dep.TaskID, fleet.AccessView)
		if err != nil {
			if fleet.ReasonOf(err) == fleet.ReasonTaskNotFound {
				err = fleet.Invalid(fleet.ReasonTaskNotFound, "depends_on", "depends_on names task %q, which does not exist", fleet.Shorten(dep.TaskID, 60)).With("task_id", dep.TaskID)
			}
			return nil, err
		}
		dependencies[i].TaskID = t.ID
	}
	if len(dependencies) == 0 {
		return dependencies, nil
	}
	ancestors, err := waitingAncestors(tx, task)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, first := range dependencies {
		for todo := []fleet.Dependency{first}; len(todo) > 0; todo = todo[1:] {
			dep := todo[0].TaskID
			switch {
			case dep == task.ID:
				return nil, fleet.InvalidField("depends_on", "depends_on would make tasks wait for each other: task %q waits for %q", first.TaskID, dep)
			case slices.Contains(ancestors, dep):
				return nil, fleet.InvalidField("depends_on", "depends_on would make tasks wait for each other: task %q has delegated this task, so it ends only after it, unless on_parent_end is detach and wake is none", dep)
			}
			if seen[dep] {
				continue
			}
			seen[dep] = true
			q, err := fleet.First(tx.Queue(fleet.QueueFilter{TaskIDs: []string{dep}}))
			if err != nil {
				return nil, err
			}
			if q != nil && q.Status == fleet.TaskPending {
				todo = append(todo, q.Entry.Dependencies...)
			}
		}
	}
	return dependencies, nil
}

// waitingAncestors returns the ids of the tasks above the task that wait for it, or stop it when they end.
func waitingAncestors(tx fleet.ReadTx, t *fleet.Task) (ids []string, err error) {
	for t != nil && t.ParentID != "" && (!t.Delegation.Detached || t.Delegation.Wake != fleet.WakeNone) {
		ids = append(ids, t.ParentID)
		if t, err = tx.Task(t.ParentID); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// UpdateQueuedTaskRequest says what changes about a pending task. A nil field changes nothing.
type UpdateQueuedTaskRequest struct {
	TaskID             string
	Priority           *int
	NotBefore, Expires *time.Time
	Exclusive          *string             // QueueEntry.ExclusiveKey
	After              *[]fleet.Dependency // QueueEntry.Dependencies
	RequestID          string              `json:"-"`
}

// UpdateQueuedTask changes the conditions under which a pending task starts. The error is TASK_NOT_PENDING if the task does not wait
// any more.
func (s *Service) UpdateQueuedTask(ctx context.Context, r UpdateQueuedTaskRequest) (*fleet.Task, error) {
	var given fleet.QueueEntry
	setIfGiven(&given.Priority, r.Priority)
	setIfGiven(&given.ExclusiveKey, r.Exclusive)
	setIfGiven(&given.Dependencies, r.After)
	if err := given.Validate(s.now()); err != nil {
		return nil, err
	}
	return s.changePending(ctx, Call{Method: "UpdateQueuedTask", RequestID: r.RequestID, Body: r}, r.TaskID,
		func(tx fleet.Tx, p fleet.Principal, q *fleet.QueuedTask) (text string, err error) {
			e := &q.Entry
			if !e.Expires.IsZero() && !e.Expires.After(s.now()) && r.Expires == nil { // the next Dispatch stops it
				return "", fleet.Errorf(fleet.ReasonTaskNotPending, "task %q has expired, so it does not wait any more", q.ID).
					With("task_id", q.ID).With("agent_name", q.AgentName).Next("{queue_task} queues another one")
			}
			setIfGiven(&e.Priority, r.Priority)
			setIfGiven(&e.NotBefore, r.NotBefore)
			setIfGiven(&e.Expires, r.Expires)
			setIfGiven(&e.ExclusiveKey, r.Exclusive)
			if r.After != nil {
				if e.Dependencies, err = s.resolveDependencies(tx, p, &q.Task, *r.After); err != nil {
					return "", err
				}
			}
			err = e.Validate(s.now())
			if !e.Expires.IsZero() && e.Expires.Before(e.NotBefore) && r.Expires == nil {
				err = fleet.InvalidField("not_before", "not_before is after the time at which the task expires: give an earlier time, or change expires too")
			}
			return "changed by " + p.Name, err
		})
}

// setIfGiven sets *value to *given, unless given is nil.
func setIfGiven[T any](value, given *T) {
	if given != nil {
		*value = *given
	}
}

// HoldTask keeps a pending task from starting until ReleaseTask is called. It does nothing if the task is held already.
func (s *Service) HoldTask(ctx context.Context, id, requestID string) (*fleet.Task, error) {
	return s.changePending(ctx, Call{Method: "HoldTask", RequestID: requestID, Body: id}, id,
		func(_ fleet.Tx, p fleet.Principal, q *fleet.QueuedTask) (string, error) {
			if q.Entry.HeldBy != "" {
				return "", nil
			}
			q.Entry.HeldBy, q.Entry.HeldAt = p.Name, s.now()
			return "held by " + p.Name, nil
		})
}

// ReleaseTask ends the hold of HoldTask, so that the task can start. It does nothing if the task is not held.
func (s *Service) ReleaseTask(ctx context.Context, id, requestID string) (*fleet.Task, error) {
	return s.changePending(ctx, Call{Method: "ReleaseTask", RequestID: requestID, Body: id}, id,
		func(_ fleet.Tx, p fleet.Principal, q *fleet.QueuedTask) (string, error) {
			if q.Entry.HeldBy == "" {
				return "", nil
			}
			q.Entry.HeldBy, q.Entry.HeldAt = "", time.Time{}
			return "released by " + p.Name, nil
		})
}

// changePending changes the queue entry of a pending task, once per request id. change returns the text of the event, or "" if nothing
// changes. The error is TASK_NOT_PENDING if the task is not pending.
func (s *Service) changePending(
	ctx context.Context, c Call, id string, change func(fleet.Tx, fleet.Principal, *fleet.QueuedTask) (string, error),
) (*fleet.Task, error) {
	return s.changeTask(ctx, c, id, func(tx fleet.Tx, p fleet.Principal, t *fleet.Task) (*fleet.Task, error) {
		q, err := fleet.First(tx.Queue(fleet.QueueFilter{TaskIDs: []string{t.ID}}))
		switch {
		case err != nil:
			return nil, err
		case q == nil || t.Status != fleet.TaskPending:
			return nil, fleet.Errorf(fleet.ReasonTaskNotPending, "task %q is %s, so it does not wait any more", t.ID, t.Status).
				With("task_id", t.ID).With("agent_name", t.AgentName).Next("{list_queue} shows the tasks that wait")
		}
		text, err := change(tx, p, q)
		if err != nil || text == "" {
			return t, err
		}
		if err := tx.Put(t.ID, &q.Entry); err != nil {
			return nil, err
		}
		return t, tx.Append(t.Event(fleet.EventTaskQueued, s.now(), text))
	})
}
