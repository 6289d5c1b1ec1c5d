package service

import (
	"context"
	"fmt"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// notStoppedYet tells people that the wait of StopTask or StopTaskByID is over before the task has ended.
const notStoppedYet = "The task is being stopped and has not ended yet: show_task shows its status"

// StopTask stops the agent's running task and waits for its end, at most state.Config.CreateWait. It returns the task, the agent and a
// text for people. A task that ends by itself before the stop takes effect keeps its own status.
func (s *Service) StopTask(ctx context.Context, ref, requestID string) (*fleet.Task, *fleet.AgentView, string, error) {
	task, err := s.requestAgentTaskStop(ctx, Call{Method: "StopAgentTask", RequestID: requestID, Body: ref}, ref)
	if err != nil {
		return nil, nil, "", err
	}
	v, err := s.waitForEnd(ctx, task, s.cfg.CreateWait)
	if err != nil {
		return nil, nil, "", err
	}
	if task, err = s.earlierTask(ctx, CallResult{ObjectID: task.ID}); err != nil {
		return nil, nil, "", err
	}
	switch task.Status {
	case fleet.TaskStopped:
		return task, v, "Task stopped successfully", nil
	case fleet.TaskCompleted, fleet.TaskFailed:
		return task, v, fmt.Sprintf("The task had %s by itself before the stop took effect", task.Status), nil
	}
	return task, v, notStoppedYet, nil
}

// requestAgentTaskStop requests the stop of the agent's running task, once per request id, and returns the task.
func (s *Service) requestAgentTaskStop(ctx context.Context, c Call, ref string) (*fleet.Task, error) {
	v, _, err := s.agent(ctx, ref, fleet.AccessRun)
	c.Refusal = err
	return s.onceTask(ctx, c, func(tx fleet.Tx, p fleet.Principal) (*fleet.Task, error) {
		v, err := agentForUpdate(tx, p, v, fleet.AccessRun)
		if err != nil {
			return nil, err
		}
		task := v.Task
		if task == nil {
			return nil, errNoRunningTask(v)
		}
		return task, s.requestStop(tx, p, task)
	})
}

// requestStop requests the stop of a running task by p; see state.RequestStop.
func (s *Service) requestStop(tx fleet.Tx, p fleet.Principal, t *fleet.Task) error {
	return state.RequestStop(tx, t, stopReason(p), "stop requested by "+p.Name, s.now())
}

// stopTask ends the task if it is pending, and requests its stop if it runs. It does nothing if the task has ended or its stop was
// requested before.
func (s *Service) stopTask(tx fleet.Tx, p fleet.Principal, id string) (*fleet.Task, error) {
	t, err := s.task(tx, p, id, fleet.AccessRun)
	switch {
	case err != nil || t.Status.Ended():
		return t, err
	case t.Status == fleet.TaskPending:
		return t, state.StopPending(tx, t, stopReason(p), s.now())
	}
	return t, s.requestStop(tx, p, t)
}

// StopTaskByID stops a pending or running task, and waits until it has ended, at most state.Config.CreateWait. It returns the task and
// a text for people. A task that has ended keeps its status.
func (s *Service) StopTaskByID(ctx context.Context, id, requestID string) (*fleet.Task, string, error) {
	if id == "" {
		return nil, "", errNoTaskID()
	}
	task, err := s.onceTask(ctx, Call{Method: "StopTask", RequestID: requestID, Body: id}, func(tx fleet.Tx, p fleet.Principal) (*fleet.Task, error) {
		return s.stopTask(tx, p, id)
	})
	if err != nil {
		return nil, "", err
	}
	if task.Status == fleet.TaskRunning {
		if _, err := s.waitForEnd(ctx, task, s.cfg.CreateWait); err != nil {
			return nil, "", err
		}
		if task, err = s.earlierTask(ctx, CallResult{ObjectID: task.ID}); err != nil {
			return nil, "", err
		}
	}
	switch {
	case task.Status == fleet.TaskStopped:
		return task, "Task stopped successfully", nil
	case task.Status.Ended():
		return task, fmt.Sprintf("The task has %s", task.Status), nil
	}
	return task, notStoppedYet, nil
}

// RequestTaskStop requests the stop of a running task without waiting. If the task has ended or its stop was requested before, it does
// nothing.
func (s *Service) RequestTaskStop(ctx context.Context, id string) error {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return err
	}
	return s.requestTaskStopFor(ctx, p, id, stopReason(p), "stop requested by "+p.Name)
}

// requestTaskStopFor works like RequestTaskStop, with the reason that the task gets and the text of the event.
func (s *Service) requestTaskStopFor(ctx context.Context, p fleet.Principal, id, reason, text string) error {
	return s.store.Update(ctx, func(tx fleet.Tx) error {
		t, err := s.task(tx, p, id, fleet.AccessRun)
		if err != nil || !t.Active() {
			return err
		}
		return state.RequestStop(tx, t, reason, text, s.now())
	})
}

// stopReason returns the text that a task gets as its reason when p stops it.
func stopReason(p fleet.Principal) string {
	switch {
	case p.AgentUID != "":
		return agentStopReason(p)
	case p.Name != fleet.LocalPrincipal:
		return "stopped by " + p.Name
	case p.Kind == fleet.KindController:
		return "stopped by an AI controller on the server's machine"
	case p.Kind == fleet.KindAgent:
		return "stopped by an agent"
	}
	return "stopped by a user of the server's machine"
}
