package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fleet/internal/fleet"
)

// MaxRunWait is the longest wait that RunTask can be given.
const MaxRunWait = 30 * 24 * time.Hour

// RunTask queues a task as QueueTask does, and waits until the task has ended, but not longer than wait; nil means no limit. It
// returns the task as it is then. The task continues if the wait is over or the caller has disconnected. RunTask passes the stored task to
// onQueued, and then its events to sink. A detached call does not wait and calls neither function; see Detach.
func (s *Service) RunTask(ctx context.Context, r QueueTaskRequest, wait *time.Duration, onQueued func(*fleet.Task) error, sink func(fleet.Event) error) (*fleet.Task, error) {
	if wait != nil && (*wait < 0 || *wait > MaxRunWait) {
		return nil, fleet.InvalidField("wait_seconds", "wait_seconds is %d: give 0 to %d", int64(wait.Seconds()), int64(MaxRunWait.Seconds()))
	}
	t, err := s.QueueTask(ctx, r)
	if err != nil {
		return nil, err
	}
	if fleet.Detached(ctx) {
		return t, s.Detach(ctx, t.ID)
	}
	if err := onQueued(t); err != nil {
		return nil, err
	}
	waitCtx := ctx
	if wait != nil {
		var cancel context.CancelFunc
		waitCtx, cancel = context.WithTimeout(ctx, *wait)
		defer cancel()
	}
	ended, err := s.FollowTask(waitCtx, t.ID, 0, sink)
	if err != nil && ctx.Err() == nil && waitCtx.Err() != nil {
		return s.earlierTask(ctx, CallResult{ObjectID: t.ID})
	}
	return ended, err
}

// RunMessage tells people whether the task that RunTask returned has ended.
func RunMessage(t *fleet.Task) string {
	if t.Active() {
		return fmt.Sprintf("The task is %s and goes on: wait_tasks waits for its end", t.Status)
	}
	return "The task has ended: it is " + string(t.Status)
}

// Detach ends a detached call that has started the task. If the caller has left meanwhile and the call does not continue, nobody
// learns the task's id, so Detach stops the task and returns the error of ctx.
func (s *Service) Detach(ctx context.Context, taskID string) error {
	if ctx.Err() == nil || fleet.WorkContinues(ctx) {
		return nil
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), detachTimeout)
	defer cancel()
	return errors.Join(ctx.Err(), s.updateAs(stopCtx, func(tx fleet.Tx, p fleet.Principal) error {
		_, err := s.stopTask(tx, p, taskID)
		return err
	}))
}

// detachTimeout limits how long Detach may take to record that a task is to stop.
const detachTimeout = 10 * time.Second
