package service

import (
	"context"
	"fmt"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// StartAgent starts the agent's workspace and waits until the agent is ready, at most state.Config.CreateWait. If the workspace runs
// according to the store, StartAgent asks the place whether it still runs. The error is AGENT_BUSY if the workspace is unhealthy and
// the agent has a task: the task may still run, and starting the workspace again would end the task.
func (s *Service) StartAgent(ctx context.Context, ref, requestID string) (*fleet.AgentView, string, error) {
	v, err := s.changeDesiredState(ctx, ref, requestID, s.startChange())
	if err != nil {
		return nil, "", err
	}
	return s.awaitReady(ctx, v, func(v *fleet.AgentView) string { return fmt.Sprintf("Agent '%s' is running", v.Name) })
}

// startChange returns the change of StartAgent.
func (s *Service) startChange() desiredChange {
	var ws *fleet.Workspace
	check := func(ctx context.Context, v *fleet.AgentView) (err error) {
		if v.State == fleet.StateRunning {
			ws, err = s.inspect(ctx, &v.Agent)
		}
		return err
	}
	return desiredChange{method: "StartAgent", text: "start requested", check: check, change: func(v *fleet.AgentView) error {
		if ws != nil && v.State == fleet.StateRunning {
			v.State, v.StateReason = ws.State, ws.Reason
		}
		// In other states, somebody may be stopping the workspace at its host.
		isStarting := v.State == fleet.StatePending || v.State == fleet.StateStarting || v.RestartsRequested != v.RestartsDone
		switch {
		case v.Desired == fleet.DesiredRunning && (isStarting || v.State == fleet.StateRunning):
			return nil
		case v.State == fleet.StateUnhealthy && v.Task != nil:
			return errUnhealthyBusy(v)
		}
		v.Desired = fleet.DesiredRunning
		v.RestartsRequested++
		v.Attempts, v.RetryAt = 0, time.Time{}
		return nil
	}}
}

// inspect asks the agent's place for the workspace, because somebody may have stopped it since Fleet last listed the workspaces. It
// returns nil if the place belongs to another server, because this server cannot ask it.
func (s *Service) inspect(ctx context.Context, a *fleet.Agent) (*fleet.Workspace, error) {
	place := s.places.Configured(a.Place)
	if place == nil {
		return nil, nil
	}
	if err := place.Available(); err != nil {
		return nil, err
	}
	ws, err := place.Inspect(ctx, *a)
	return &ws, err
}

// errUnhealthyBusy returns the error for starting an unhealthy agent that has a task.
func errUnhealthyBusy(v *fleet.AgentView) *fleet.Error {
	return fleet.Errorf(fleet.ReasonAgentBusy, "the workspace of agent %q runs, but is unhealthy (%s), and its task %s may still run there: starting it again would end the task",
		v.Name, reasonOrUnknown(v.StateReason), v.Task.ID).
		Next("wait for it with {wait_tasks}, or end it with {restart_agent}").With("agent_name", v.Name).With("task_id", v.Task.ID).With("state", string(v.State))
}

// StopAgent stops the agent's workspace and keeps its content. It waits until the workspace has stopped, but no longer than
// state.Config.CreateWait.
func (s *Service) StopAgent(ctx context.Context, ref, requestID string) (*fleet.AgentView, string, error) {
	v, err := s.changeDesiredState(ctx, ref, requestID, stopChange())
	if err != nil {
		return nil, "", err
	}
	v, err = s.waitForAgent(ctx, v.UID, s.cfg.CreateWait, func(v *fleet.AgentView) bool { return v.Settled() })
	switch {
	case err != nil:
		return nil, "", err
	case v.Settled() && v.State == fleet.StateStopped:
		return v, fmt.Sprintf("Agent '%s' is stopped", v.Name), nil
	case v.Settled() && v.Desired == fleet.DesiredRunning:
		return nil, "", errNotStopped(v, "it was started meanwhile").Next("{stop_agent} stops it")
	case v.Settled():
		return nil, "", errNotStopped(v, reasonOrUnknown(v.StateReason)).Next("{start_agent} starts it again, {delete_agent} removes it")
	}
	return v, fmt.Sprintf("Agent '%s' is not stopped yet, its workspace is %s: show_agent shows its state", v.Name, v.State), nil
}

// stopChange returns the change of StopAgent.
func stopChange() desiredChange {
	return desiredChange{method: "StopAgent", text: "stop requested", change: func(v *fleet.AgentView) error {
		v.Desired = fleet.DesiredStopped
		v.RestartsDone = v.RestartsRequested
		v.Attempts, v.RetryAt = 0, time.Time{}
		return nil
	}}
}

// errNotStopped returns the error for an agent that was not stopped as requested.
func errNotStopped(v *fleet.AgentView, why string) *fleet.Error {
	return fleet.Errorf(fleet.ReasonProvisioningFailed, "the workspace of agent %q is not stopped, it is %s: %s", v.Name, v.State, why).
		With("agent_name", v.Name).With("state", string(v.State))
}

// desiredChange is a change of the desired state of an agent.
type desiredChange struct {
	method, text string // method of the API, and text of the event
	args         any    // the other values that identify the request
	// check can refuse the change before the transaction, and may ask the place. It may be nil.
	check  func(context.Context, *fleet.AgentView) error
	change func(*fleet.AgentView) error // can also refuse it
}

// apply makes the change in v, or returns an error that says why the agent cannot be changed. It stores nothing.
func (d desiredChange) apply(s *Service, v *fleet.AgentView) error {
	a := &v.Agent
	if !a.DeletedAt.IsZero() || a.Desired == fleet.DesiredDeleted && d.method != "DeleteAgent" {
		return fleet.AgentNotFound(a.Name)
	}
	if err := s.places.Of(a).Available(); err != nil {
		return err
	}
	if err := d.change(v); err != nil {
		return err
	}
	if a.Foreign() { // and the change does not take the workspace over
		return errForeign(a)
	}
	return nil
}

// changeDesiredState changes the desired state of an agent, once per request id, and returns the agent as it was before the
// change. For a repeated request, it returns the agent's current state, and calls no function of d.
func (s *Service) changeDesiredState(ctx context.Context, ref, requestID string, d desiredChange) (*fleet.AgentView, error) {
	c := Call{Method: d.method, RequestID: requestID, Body: []any{ref, d.args}}
	result, repeated, err := s.EarlierResult(ctx, c)
	if err != nil {
		return nil, err
	}
	if repeated {
		return s.earlierAgent(ctx, result)
	}
	v, _, err := s.agent(ctx, ref, fleet.AccessOwn)
	if err != nil {
		return nil, err
	}
	if d.check != nil {
		if err := d.check(ctx, v); err != nil {
			return nil, err
		}
	}
	_, _, err = s.Once(ctx, c, func(tx fleet.Tx, _ fleet.Principal) (CallResult, error) {
		now := s.now()
		current, err := state.ReadAgentView(tx, v.UID)
		if err != nil {
			return CallResult{}, err
		}
		if current == nil {
			return CallResult{}, fleet.AgentNotFound(v.Name)
		}
		if err := plannedAgentFrom(ctx).checkTask(current); err != nil {
			return CallResult{}, err
		}
		if err := d.apply(s, current); err != nil {
			return CallResult{}, err
		}
		a := &current.Agent
		a.UpdatedAt, a.Trace = now, fleet.TraceFrom(ctx)
		if err := tx.Update(a); err != nil {
			return CallResult{}, err
		}
		return CallResult{AgentUID: a.UID}, tx.Append(a.Event(fleet.EventAgentChanged, now, d.text))
	})
	return v, err
}

// errForeign returns the error for changing an agent whose workspace does not belong to this Fleet.
func errForeign(a *fleet.Agent) *fleet.Error {
	return fleet.Errorf(fleet.ReasonPermissionDenied, "the workspace of agent %q belongs to %s, so this Fleet does not change it", a.Name, a.Host.ForeignOwner).
		Next("{restart_agent} with take_over makes it this Fleet's, and ends what runs in it").With("agent_name", a.Name)
}
