package service

import (
	"context"
	"fmt"
	"slices"
	"time"

	"fleet/internal/fleet"
)

// The limits of WaitTasks.
const (
	MaxWait      = 50 * time.Second
	MaxWaitTasks = 100 // number of ids
)

// WaitCondition says when a wait for tasks is over; the zero value means when all tasks have ended.
type WaitCondition struct {
	Any      bool // one ended task is enough
	Question bool // the wait is also over when a task waits for an answer
}

// WaitTasks waits until the condition is met, at most d. It returns the tasks in the order of ids, and whether the condition
// was met.
func (s *Service) WaitTasks(ctx context.Context, ids []string, until WaitCondition, d time.Duration) ([]*fleet.Task, bool, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, false, err
	}
	if len(ids) == 0 || len(ids) > MaxWaitTasks {
		return nil, false, fleet.InvalidField("task_ids", "task_ids has %d ids: give 1 to %d", len(ids), MaxWaitTasks)
	}
	if d < 0 || d > MaxWait {
		return nil, false, fleet.InvalidField("timeout_seconds", "timeout_seconds is %d: give 0 to %d, and call again to wait on", int(d.Seconds()), int(MaxWait.Seconds()))
	}
	signal, cancel := s.store.Subscribe()
	defer cancel()
	timer := time.NewTimer(d)
	defer timer.Stop()
	tasks := make([]*fleet.Task, len(ids))
	if err := s.snap.RefreshOwn(ctx); err != nil {
		return nil, false, err
	}
	for timedOut := d == 0; ; {
		shares := s.snap.Shares() // if they change, the caller may no longer see a task
		err := s.store.View(ctx, func(tx fleet.ReadTx) (err error) {
			for i, id := range ids {
				if tasks[i] != nil && !tasks[i].Active() {
					continue
				}
				if tasks[i] != nil {
					id = tasks[i].ID // ids may be prefixes, which later tasks can share
				}
				if tasks[i], err = s.task(tx, p, id, fleet.AccessView); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, false, err
		}
		ended := countEnded(tasks)
		done := ended == len(ids) || until.Any && ended > 0 || until.Question && countWaiting(tasks) > 0
		if done || timedOut {
			return tasks, done, nil
		}
		fleet.ReleaseSlot(ctx)
		for changed := false; !changed && !timedOut; {
			select {
			case <-signal:
			case <-timer.C:
				timedOut = true
			case <-ctx.Done():
				return nil, false, ctx.Err()
			}
			if changed, err = s.anyChanged(ctx, tasks, until); err != nil {
				return nil, false, err
			}
			changed = changed || s.snap.Shares() != shares
		}
	}
}

// anyChanged reports whether one of the tasks that were active is no longer the task of its agent or, with until.Question, waits for an
// answer. It uses the snapshot, because callers call it after every commit and few commits end one of these tasks.
func (s *Service) anyChanged(ctx context.Context, tasks []*fleet.Task, until WaitCondition) (bool, error) {
	var uids []string
	for _, t := range tasks {
		uids = append(uids, t.AgentUID)
	}
	if err := s.snap.RefreshAgents(ctx, uids...); err != nil {
		return false, err
	}
	return slices.ContainsFunc(tasks, func(t *fleet.Task) bool {
		if !t.Active() {
			return false
		}
		v := s.snap.Get(t.AgentUID)
		return v == nil || v.Task == nil || v.Task.ID != t.ID || until.Question && v.Task.OpenQuestions > 0
	}), nil
}

func countWaiting(tasks []*fleet.Task) (waiting int) {
	for _, t := range tasks {
		if t.Active() && t.OpenQuestions > 0 {
			waiting++
		}
	}
	return waiting
}

func countEnded(tasks []*fleet.Task) (ended int) {
	for _, t := range tasks {
		if !t.Active() {
			ended++
		}
	}
	return ended
}

// WaitMessage tells people how many of the tasks have ended or wait for an answer. done is the result of WaitTasks.
func WaitMessage(tasks []*fleet.Task, done bool) string {
	ended := countEnded(tasks)
	text := fmt.Sprintf("%d of %d tasks have ended", ended, len(tasks))
	if n := countWaiting(tasks); n > 0 {
		text += fmt.Sprintf(", %d wait for an answer (list_questions)", n)
	}
	if !done {
		text += ": call wait_tasks again to wait on"
	}
	return text
}
