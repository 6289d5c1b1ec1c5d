package service

import (
	"context"
	"log/slog"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// CompleteByUID ends the agent's task as completed, with the agent's report. A task that has already ended is returned
// unchanged. The error is NO_RUNNING_TASK if the agent never had a task.
//
// The payload is appended to the bytes that AppendPayload has stored. The error is LIMIT_REACHED if both together exceed
// limit.
func (s *Service) CompleteByUID(ctx context.Context, uid, summary string, payload []byte, limit int) (*fleet.Task, error) {
	if len(payload) > limit {
		return nil, payloadTooLarge(len(payload), limit)
	}
	return s.conclude(ctx, uid, limit, func(fleet.Principal) fleet.Outcome {
		return fleet.Outcome{Status: fleet.TaskCompleted, Summary: summary, Payload: payload, Reported: true}
	})
}

// StopByUID ends the agent's task as stopped. A task that has already ended is returned unchanged.
func (s *Service) StopByUID(ctx context.Context, uid string) (*fleet.Task, error) {
	return s.conclude(ctx, uid, 0, func(p fleet.Principal) fleet.Outcome {
		return fleet.Outcome{Status: fleet.TaskStopped, Reason: stopReason(p)}
	})
}

// conclude ends the agent's task at once. Before it returns, it tells the run to begin no further work. Work that the run
// has begun, for example a request to its model, may end by itself; the reconciler ensures that it ends.
func (s *Service) conclude(ctx context.Context, uid string, limit int, outcome func(fleet.Principal) fleet.Outcome) (task *fleet.Task, err error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	var a *fleet.Agent
	ended := false
	err = s.store.Update(ctx, func(tx fleet.Tx) error {
		v, err := ownAgent(tx, p, uid)
		if err != nil {
			return err
		}
		a, task = &v.Agent, v.Task
		if ended = task != nil; ended {
			o := outcome(p)
			if all := task.PayloadSize + len(o.Payload); limit > 0 && all > limit {
				return payloadTooLarge(all, limit)
			}
			return state.EndTask(tx, a, task, o, s.now(), nil)
		}
		last, err := tx.LastTasks([]string{uid})
		if err == nil && len(last) == 0 {
			err = fleet.Errorf(fleet.ReasonNoRunningTask, "agent %q has no task", uid).With("agent_name", uid)
		}
		if err == nil {
			task = last[0]
		}
		return err
	})
	if err != nil || !ended || task.Dispatched.IsZero() {
		return task, err
	}
	s.interruptEnded(ctx, a, task)
	return task, nil
}

// interruptTimeout limits how long the end of a contract waits until the run's host has received the interrupt.
const interruptTimeout = 2 * time.Second

// interruptEnded interrupts the run of an ended task. It only logs a failure, because the reconciler ends the run in any
// case.
func (s *Service) interruptEnded(ctx context.Context, a *fleet.Agent, t *fleet.Task) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), interruptTimeout)
	defer cancel()
	if err := s.interrupts.Ask(ctx, a, t); err != nil {
		s.log.WarnContext(ctx, "run not told that its task has ended", slog.String("task", t.ID), slog.Any("error", err))
	}
}
