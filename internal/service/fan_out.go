package service

import (
	"context"
	"strings"

	"fleet/internal/fleet"
)

// FanOutRequest describes several tasks with the same prompt. They run on agents of Pool, or on new agents in Project.
type FanOutRequest struct {
	QueueTaskRequest
	Count  int      // number of tasks; 0 if Models is set
	Models []string // one task for each of these models
}

// FanOutTask adds the tasks to the queue, all or none. It returns them as they were queued, also for a repeated request.
func (s *Service) FanOutTask(ctx context.Context, r FanOutRequest) ([]*fleet.Task, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	r.Attachments = withMediaTypes(r.Attachments)
	r.Options.Attachments = len(r.Attachments)
	all, err := r.requests()
	if err != nil {
		return nil, err
	}
	for _, v := range all {
		if err := s.checkQueueRequest(v); err != nil {
			return nil, err
		}
	}
	if err := s.queue.Refresh(ctx); err != nil {
		return nil, err
	}
	c := Call{Method: "FanOutTask", RequestID: r.RequestID, Body: []any{r.callBody(), r.Pool, r.Project, r.Role, r.Count, r.Models, r.Entry}}
	to, err := s.assignees(ctx, p, all)
	c.Refusal = err
	result, _, err := s.Once(ctx, c, func(tx fleet.Tx, _ fleet.Principal) (CallResult, error) {
		ids := make([]string, len(all))
		for i, v := range all {
			t, err := s.queueTask(ctx, tx, p, to[i], v)
			if err != nil {
				return CallResult{}, err
			}
			ids[i] = t.ID
		}
		return CallResult{ObjectID: strings.Join(ids, " ")}, putFanOut(tx, ids)
	})
	if err != nil {
		return nil, err
	}
	var tasks []*fleet.Task
	for id := range strings.FieldsSeq(result.ObjectID) {
		t, err := s.earlierTask(ctx, CallResult{ObjectID: id})
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, asQueued(t))
	}
	return tasks, nil
}

// putFanOut records in the entries of the tasks that they belong together.
func putFanOut(tx fleet.Tx, ids []string) error {
	queued, err := tx.Queue(fleet.QueueFilter{TaskIDs: ids})
	for _, q := range queued {
		q.Entry.FanOut = ids
		if err == nil {
			err = tx.Put(q.ID, &q.Entry)
		}
	}
	return err
}

// requests returns a request for each of the tasks, or INVALID_ARGUMENT.
func (r FanOutRequest) requests() ([]QueueTaskRequest, error) {
	n := r.Count
	switch {
	case r.Pool == "" && r.Project == "":
		return nil, fleet.InvalidField("pool", "nothing says where the tasks run: give pool or project")
	case r.Count != 0 && len(r.Models) > 0:
		return nil, fleet.InvalidField("count", "count is given besides models, each of which gets a task: give one of them")
	case len(r.Models) > 0:
		n = len(r.Models)
	case r.Count == 0:
		return nil, fleet.InvalidField("count", "nothing says how many tasks: give count or models")
	}
	switch {
	case n > fleet.MaxFanOut && r.Count == 0:
		return nil, fleet.InvalidField("models", "models has %d models: give at most %d", n, fleet.MaxFanOut)
	case n == 1 && r.Count == 0:
		return nil, fleet.InvalidField("models", "models has only one model: give several, or call {queue_task}")
	case n < 2 || n > fleet.MaxFanOut:
		return nil, fleet.InvalidField("count", "count is %d: give 2 to %d", n, fleet.MaxFanOut)
	}
	all := make([]QueueTaskRequest, n)
	for i := range all {
		all[i] = r.QueueTaskRequest
		all[i].NewAgent = r.Pool == ""
		if len(r.Models) > 0 {
			all[i].Options.Model = r.Models[i]
		}
	}
	return all, nil
}

// assignees returns the assignee of each task. Each task needs an agent of its own.
func (s *Service) assignees(ctx context.Context, p fleet.Principal, all []QueueTaskRequest) ([]assignee, error) {
	if r := all[0]; r.Pool != "" {
		pool, err := s.openPool(ctx, p, r.Pool)
		if err != nil {
			return nil, err
		}
		if pool.Reuse != fleet.ReuseFresh && len(all) > pool.MaxAgents {
			return nil, fleet.InvalidField("pool", "the pool %q has at most %d agents, and each of the %d tasks needs one that has worked on none of the others", pool.Name, pool.MaxAgents, len(all)).
				Next("{update_pool} changes the limit")
		}
	}
	to, names := make([]assignee, len(all)), map[string]bool{}
	for i, r := range all {
		for { // until a new agent has another name than the others
			var err error
			if to[i], err = s.findAssignee(ctx, p, r); err != nil {
				return nil, err
			}
			draft := to[i].draft
			if draft == nil || !names[draft.Name] {
				break
			}
		}
		if draft := to[i].draft; draft != nil {
			names[draft.Name] = true
		}
	}
	return to, nil
}
