package service

import (
	"context"
	"time"

	"fleet/internal/fleet"
)

// newTask returns a new running task of the agent, which is not stored. A timeout of 0 means state.Config.TaskTimeout.
func (s *Service) newTask(ctx context.Context, p fleet.Principal, a *fleet.Agent, prompt string, timeout time.Duration, now time.Time) *fleet.Task {
	if timeout == 0 {
		timeout = s.cfg.TaskTimeout
	}
	return &fleet.Task{
		ID: s.cfg.NewID(), AgentUID: a.UID, AgentName: a.Name, Owner: a.Owner, Description: prompt, Source: p.Source(),
		Status: fleet.TaskRunning, Timeout: timeout, CreatedAt: now, StartedAt: now, Trace: fleet.TraceFrom(ctx), Labels: a.Labels,
	}
}

// insertTask adds the task of the agent and its event to the store. It returns an error if the task may not be delegated, or if no
// budget has room for it. All code that starts or queues a task calls it.
func (s *Service) insertTask(tx fleet.Tx, p fleet.Principal, a *fleet.Agent, t *fleet.Task) error {
	if p.TaskID != "" {
		if err := s.joinTree(tx, p, a, t); err != nil {
			return err
		}
	}
	var err error
	if t.Status == fleet.TaskPending {
		err = s.checkAffordable(tx, a, t)
	} else {
		err = s.reserveCost(tx, a, t)
	}
	if err != nil {
		return err
	}
	if err := tx.Insert(t); err != nil {
		return err
	}
	if t.Spending.Reserve != nil && a.Toolset == fleet.ToolsetFleet && t.Options.Attached == nil { // the task may have to wait for a budget later
		if err := tx.Put(t.ID, &fleet.QueueEntry{StartedDirectly: true, By: p.Name, Kind: p.Kind, Scope: p.Scope}); err != nil {
			return err
		}
	}
	return tx.Append(t.Event(fleet.EventTaskCreated, t.CreatedAt, t.Title()))
}
