package service

import (
	"context"
	"fmt"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// LandingView is the work of a task on its way into a branch.
type LandingView struct {
	*fleet.Landing
	Task    *fleet.Task
	Reviews []*fleet.Review // oldest first; nil in the results of LandTasks and ShowOverlaps
	Err     error           // why a dry run of LandTasks cannot combine the work; nil otherwise, and for a conflict
}

// landingOf returns the landing of the task; nil if the task has changed nothing, or has not ended.
func landingOf(tx fleet.ReadTx, taskID string) (*fleet.Landing, error) {
	return fleet.First(tx.Landings(fleet.LandingFilter{TaskIDs: []string{taskID}}))
}

// openWork returns the task, its agent and its work. p must have the needed access to the task. The error is WORK_SETTLED if the work has
// landed, was abandoned or was replaced, and CHANGES_NOT_FOUND if there is no work. The agent is nil if it no longer exists.
func (s *Service) openWork(tx fleet.ReadTx, p fleet.Principal, id string, needed fleet.Access) (*fleet.Task, *fleet.Agent, *fleet.Landing, error) {
	t, err := s.task(tx, p, id, needed)
	if err != nil {
		return nil, nil, nil, err
	}
	l, err := landingOf(tx, t.ID)
	switch {
	case err != nil:
		return nil, nil, nil, err
	case l == nil:
		return nil, nil, nil, errNoWork(tx, t)
	case l.State.Settled():
		return nil, nil, nil, errWorkSettled(t, l)
	}
	a, err := tx.Agent(t.AgentUID)
	return t, a, l, err
}

// errNoWork returns CHANGES_NOT_FOUND for a task without work that could land, with the reason. If it cannot read the reason, it returns
// the error of the store.
func errNoWork(tx fleet.ReadTx, t *fleet.Task) error {
	why, next := "it changed nothing in a repository", ""
	if t.Active() {
		why, next = "it has not ended", "{wait_tasks} waits for that"
	} else if c, err := tx.Changes(t.ID); err != nil {
		return err
	} else if c != nil && c.Problem != "" {
		why = c.Problem
	}
	return fleet.Errorf(fleet.ReasonChangesNotFound, "task %s has no work that could land: %s", t.Ref(), why).With("task_id", t.ID).Next(next)
}

// workTitle returns the title of the task that began the work.
func workTitle(tx fleet.ReadTx, t *fleet.Task, l *fleet.Landing) (string, error) {
	if len(l.EarlierTasks) > 0 {
		first, err := tx.Task(l.EarlierTasks[0])
		if err != nil {
			return "", err
		}
		if first != nil { // it may have been deleted
			return first.Title(), nil
		}
	}
	return t.Title(), nil
}

func errWorkSettled(t *fleet.Task, l *fleet.Landing) error {
	how := ""
	switch l.State {
	case fleet.LandingLanded:
		how = fmt.Sprintf(": the branch %s has it with the commit %s", l.Into(), fleet.ShortCommit(l.Commit))
	case fleet.LandingReplaced:
		how = fmt.Sprintf(": task %s goes on with it", l.NextTask)
	}
	return fleet.Errorf(fleet.ReasonWorkSettled, "the work of task %s is %s%s", t.Ref(), l.State, how).With("task_id", t.ID).With("state", string(l.State))
}

// errLanding returns WORK_SETTLED for work with a candidate: the branch may have it already.
func errLanding(t *fleet.Task, l *fleet.Landing) error {
	return fleet.Errorf(fleet.ReasonWorkSettled, "the work of task %s is landing at this moment", t.Ref()).With("task_id", t.ID).With("state", string(l.State))
}

// putLanding writes the landing with its event.
func (s *Service) putLanding(tx fleet.Tx, t *fleet.Task, l *fleet.Landing, text string) error {
	l.UpdatedAt = s.now()
	if err := tx.Put(t.ID, l); err != nil {
		return err
	}
	return tx.Append(l.Event(t, l.UpdatedAt, text))
}

// repository returns the repository of the project at the place. The error is UNIMPLEMENTED if the place cannot land work, belongs to
// another server, or is not configured any more.
func (s *Service) repository(place, project string) (fleet.Repository, error) {
	p := s.places.Configured(place)
	if p == nil {
		_, server := fleet.SplitPlace(place)
		if server == "" {
			return nil, fleet.Errorf(fleet.ReasonUnimplemented, "the place %q is not configured any more", place).
				Next("an operator can put it back into fleet.yaml")
		}
		return nil, fleet.Errorf(fleet.ReasonUnimplemented, "the repository of the project %q is on the machine of the server %q", project, server).
			Next("call that server")
	}
	i, ok := p.Place.(fleet.Integrator)
	if !ok {
		return nil, fleet.Errorf(fleet.ReasonUnimplemented, "the place %q cannot land work: push the branches from its workspaces", p.Name)
	}
	return i.Repository(project)
}

// contribution returns the work in the form that repositories take.
func contribution(l *fleet.Landing) fleet.Contribution {
	return fleet.Contribution{Name: l.TaskID, Head: l.Head, Since: l.Base}
}

// collectWork makes sure that the repository has the work of the task. If the agent is deleted, the work may come from its kept bundle.
func (s *Service) collectWork(ctx context.Context, repo fleet.Repository, t *fleet.Task) error {
	var a *fleet.Agent
	var c *fleet.Changes
	if err := s.store.View(ctx, func(tx fleet.ReadTx) (err error) {
		if c, err = tx.Changes(t.ID); err == nil {
			a, err = tx.Agent(t.AgentUID)
		}
		return err
	}); err != nil {
		return err
	}
	if a == nil || c == nil {
		return fleet.Errorf(fleet.ReasonChangesNotFound, "the changes of task %s are not known any more", t.Ref())
	}
	err := repo.Collect(ctx, *a, *c)
	importer, can := repo.(fleet.Importer)
	if !can || a.DeletedAt.IsZero() || fleet.ReasonOf(err) != fleet.ReasonChangesNotFound {
		return err
	}
	kept, readErr := view(ctx, s.store, func(tx fleet.ReadTx) (*fleet.Remains, error) { return tx.RemainsWithBundle(a.UID) })
	if readErr != nil {
		return readErr
	}
	if kept == nil || len(kept.Bundle) == 0 {
		return err
	}
	return importer.Import(ctx, *c, kept.Bundle)
}

// continueWork queues a task of the agent that goes on with the work of t, in the conversation of t, and returns it. It sets NextTask
// of the landing, but does not write the landing.
func (s *Service) continueWork(ctx context.Context, tx fleet.Tx, p fleet.Principal, t *fleet.Task, l *fleet.Landing, description string) (*fleet.Task, error) {
	v, err := state.ReadAgentView(tx, t.AgentUID)
	switch {
	case err != nil:
		return nil, err
	case v == nil || !v.DeletedAt.IsZero() || v.Desired == fleet.DesiredDeleted:
		return nil, fleet.Errorf(fleet.ReasonAgentNotFound, "agent %q of task %s was deleted, so it cannot go on with its work", t.AgentName, t.Ref()).
			With("agent_name", t.AgentName).Next("{restore_agent} may bring it back")
	}
	r := QueueTaskRequest{StartTaskRequest: StartTaskRequest{Description: description, Timeout: t.Timeout, Options: fleet.TaskOptions{
		Model: t.Options.Model, Effort: t.Options.Effort, MaxTurns: t.Options.MaxTurns, MaxCostUSD: t.Options.MaxCostUSD, Continues: t.ID,
	}}, conversation: t.Delegation.Conversation}
	checks, err := tx.Checks(t.ID)
	if err != nil {
		return nil, err
	}
	if checks != nil {
		r.Checks = checks.Requested
	}
	next, err := s.queueTask(ctx, tx, p, assignee{agent: v}, r)
	if err == nil {
		l.NextTask = next.ID
	}
	return next, err
}

// landingView returns the work of the task with its reviews. The error is TASK_NOT_FOUND if the task or its work does not exist.
func (s *Service) landingView(ctx context.Context, taskID string) (*LandingView, error) {
	return view(ctx, s.store, func(tx fleet.ReadTx) (*LandingView, error) {
		t, err := tx.Task(taskID)
		if err != nil {
			return nil, err
		}
		l, err := landingOf(tx, taskID)
		if err != nil {
			return nil, err
		}
		if t == nil || l == nil {
			return nil, errTaskNotFound(taskID)
		}
		reviews, err := tx.Reviews(taskID)
		return &LandingView{Landing: l, Task: t, Reviews: reviews}, err
	})
}
