package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// CreateAgentRequest describes the agent to create.
type CreateAgentRequest struct {
	Name, Project, Role, Spec string
	Parameters                map[string]string `json:",omitempty"` // of the project
	RequestID                 string            `json:"-"`
}

// CreateAgent creates an agent and waits until it is ready, at most Config.CreateWait. If the agent is not ready by then,
// CreateAgent returns it with its current state, and the message says that it is not ready. PROVISIONING_FAILED means that
// its workspace could not be created. The agent then exists in state failed, so that its log can be read. AGENT_OFFLINE and
// AGENT_NOT_FOUND mean that somebody has stopped or deleted the agent since its creation. If the place
// refuses the request, for example because the name is taken there, CreateAgent returns the place's error, and no agent
// exists.
func (s *Service) CreateAgent(ctx context.Context, r CreateAgentRequest) (*fleet.AgentView, string, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, "", err
	}
	if err := fleet.ValidateName(r.Name); err != nil {
		return nil, "", err
	}
	if err := checkText(fleet.ReasonSpecRequired, "spec", "the agent's spec", r.Spec); err != nil {
		return nil, "", err
	}
	c := Call{Method: "CreateAgent", RequestID: r.RequestID, Body: r}
	old, err := s.Before(ctx, c)
	if err != nil {
		return nil, "", err
	}
	var made Made
	if old != nil {
		made = *old
	} else if made, err = s.insertAgent(ctx, p, c, r); err != nil {
		return nil, "", err
	}
	v, err := s.waitFor(ctx, made.AgentUID, s.cfg.CreateWait, func(v *fleet.AgentView) bool { return v.Settled() || !v.DeletedAt.IsZero() })
	switch {
	case err != nil:
		return nil, "", err
	case v.Refused != "":
		return nil, "", refusedError(&v.Agent)
	case old != nil && !v.DeletedAt.IsZero():
		return nil, "", fleet.Errorf(fleet.ReasonAgentNotFound, "agent %q was created by this request, and has been deleted since", v.Name).With("agent_name", v.Name)
	}
	return s.ready(v, fmt.Sprintf("Agent '%s' created successfully", v.Name))
}

// insertAgent checks whether the agent may be created, and adds it to the store.
func (s *Service) insertAgent(ctx context.Context, p fleet.Principal, c Call, r CreateAgentRequest) (Made, error) {
	project, place, err := s.places.FindInFleet(ctx, r.Project)
	if err != nil {
		return Made{}, asInvalid(err, "project")
	}
	if err := place.Known(ctx); err != nil {
		return Made{}, err
	}
	role, err := place.Catalog.Role(ctx, project.Name, r.Role)
	if err != nil {
		return Made{}, asInvalid(err, "role")
	}
	if err := project.CheckParameters(role, r.Parameters); err != nil {
		return Made{}, err
	}
	made, _, err := s.Once(ctx, c, func(tx fleet.Tx) (Made, error) {
		if err := place.Available(); err != nil {
			return Made{}, err
		}
		if same, err := place.SameName(tx, r.Name, p.Name); err != nil || same != nil {
			if same != nil {
				err = agentExists(same.Name)
			}
			return Made{}, err
		}
		wanted := increase{agents: 1, project: project.Name}
		if project.SpecIsTask {
			wanted.tasks = 1
		}
		if err := admit(ctx, s.Limits(), tx, p, p.Name, wanted); err != nil {
			return Made{}, err
		}
		now := s.now()
		a := &fleet.Agent{
			UID: s.cfg.NewID(), Name: r.Name, Owner: p.Name, Place: place.Name, Project: project.Name, Role: role.Name, Spec: r.Spec, Parameters: r.Parameters,
			State: fleet.StatePending, Desired: fleet.DesiredRunning, CreatedAt: now, UpdatedAt: now, Trace: fleet.TraceFrom(ctx),
		}
		if err := s.checkConfined(p, a); err != nil {
			return Made{}, err
		}
		if err := tx.InsertAgent(a); err != nil {
			return Made{}, err
		}
		made := Made{AgentUID: a.UID}
		if err := tx.Append(a.Event(fleet.EventAgentCreated, now, fmt.Sprintf("agent created in project %s as %s", a.Project, a.Role))); err != nil {
			return Made{}, err
		}
		if !project.SpecIsTask {
			return made, nil
		}
		t := s.newTask(ctx, p, a, a.Spec, 0, now)
		t.SelfStarted = true
		if err := tx.InsertTask(t); err != nil {
			return Made{}, err
		}
		return made, tx.Append(t.Event(fleet.EventTaskCreated, now, t.Title()))
	})
	return made, err
}

func agentExists(name string) *fleet.Error {
	return fleet.Errorf(fleet.ReasonAgentExists, "agent %q already exists", name).Next("choose another name, or delete it with {delete_agent} first").
		With("agent_name", name).With("field", "name")
}

// ready answers a call that has waited for the agent to become ready.
func (s *Service) ready(v *fleet.AgentView, done string) (*fleet.AgentView, string, error) {
	switch {
	case v.State == fleet.StateRunning && v.Settled():
		return v, done, nil
	case v.State == fleet.StateDeleted || v.Desired == fleet.DesiredDeleted:
		return nil, "", fleet.AgentNotFound(v.Name)
	case v.Foreign():
		return nil, "", foreign(&v.Agent)
	case v.Settled() && v.State == fleet.StateStopped:
		return nil, "", fleet.Errorf(fleet.ReasonAgentOffline, "agent %q was stopped meanwhile", v.Name).Next("{start_agent} starts it").
			With("agent_name", v.Name).With("state", string(v.State))
	case v.Settled():
		return nil, "", fleet.Errorf(fleet.ReasonProvisioningFailed,
			"the workspace of agent %q is %s: %s. show_agent_log shows details; start_agent tries again, delete_agent removes it",
			v.Name, v.State, orUnknown(v.StateReason)).With("agent_name", v.Name).With("state", string(v.State))
	}
	why := ""
	if v.StateReason != "" {
		why = " (" + v.StateReason + ")"
	}
	return v, fmt.Sprintf("Agent '%s' is not ready yet, its workspace is %s%s: show_agent shows its state", v.Name, v.State, why), nil
}

func orUnknown(reason string) string {
	if reason == "" {
		return "its host does not say why"
	}
	return strings.TrimRight(reason, ". ")
}

// DeleteAgent destroys the agent's workspace, even if it is busy, and waits for that, at most Config.CreateWait. With
// keepUnsaved, the error is UNSAVED_WORK if the agent may have work that exists only in its workspace.
func (s *Service) DeleteAgent(ctx context.Context, ref string, keepUnsaved bool, requestID string) (*fleet.AgentView, string, error) {
	var check func(*fleet.AgentView) error
	if keepUnsaved {
		check = func(v *fleet.AgentView) error { return s.checkSaved(ctx, v) }
	}
	v, err := s.changeDesired(ctx, "DeleteAgent", ref, requestID, keepUnsaved, check, func(v *fleet.AgentView) error {
		v.Desired = fleet.DesiredDeleted
		v.Attempts, v.RetryAt = 0, time.Time{}
		return nil
	}, "deletion requested")
	if err != nil {
		return nil, "", err
	}
	v, err = s.waitFor(ctx, v.UID, s.cfg.CreateWait, func(v *fleet.AgentView) bool {
		return v.State == fleet.StateDeleted || v.Attempts > 0
	})
	if err != nil {
		return nil, "", err
	}
	switch {
	case v.State == fleet.StateDeleted && v.StateReason != "":
		return v, fmt.Sprintf("Agent '%s' deleted successfully; %s", v.Name, v.StateReason), nil
	case v.State == fleet.StateDeleted:
		return v, fmt.Sprintf("Agent '%s' deleted successfully", v.Name), nil
	case v.Attempts > 0:
		return nil, "", fleet.Errorf(fleet.ReasonBackendUnavailable, "agent %q is not deleted yet: %s. Fleet keeps trying", v.Name, orUnknown(v.StateReason)).
			With("agent_name", v.Name)
	}
	return v, fmt.Sprintf("Agent '%s' is being deleted: list_agents shows it until it is deleted", v.Name), nil
}

// StartAgent starts the agent's workspace and waits until it is ready, at most Config.CreateWait. If the workspace runs
// according to the store, StartAgent asks its place whether it still does. AGENT_BUSY if the workspace is unhealthy and the agent
// has a task: the task may still run, and starting the workspace again would end it.
func (s *Service) StartAgent(ctx context.Context, ref, requestID string) (*fleet.AgentView, string, error) {
	var seen *fleet.Workspace
	look := func(v *fleet.AgentView) (err error) {
		if v.State == fleet.StateRunning {
			seen, err = s.look(ctx, &v.Agent)
		}
		return err
	}
	v, err := s.changeDesired(ctx, "StartAgent", ref, requestID, nil, look, func(v *fleet.AgentView) error {
		if seen != nil && v.State == fleet.StateRunning {
			v.State, v.StateReason = seen.State, seen.Reason
		}
		starts := v.State == fleet.StatePending || v.State == fleet.StateStarting || v.Restart != v.Restarted // somebody may be stopping it at its host
		switch {
		case v.Desired == fleet.DesiredRunning && (starts || v.State == fleet.StateRunning):
			return nil
		case v.State == fleet.StateUnhealthy && v.Task != nil:
			return unhealthyBusy(v)
		}
		v.Desired = fleet.DesiredRunning
		v.Restart++
		v.Attempts, v.RetryAt = 0, time.Time{}
		return nil
	}, "start requested")
	if err != nil {
		return nil, "", err
	}
	return s.awaitReady(ctx, v, func(v *fleet.AgentView) string { return fmt.Sprintf("Agent '%s' is running", v.Name) })
}

// look asks the agent's place for the workspace: somebody may have stopped it since the last listing. A place of another server
// cannot be asked, so look returns nil.
func (s *Service) look(ctx context.Context, a *fleet.Agent) (*fleet.Workspace, error) {
	place := s.places.Lookup(a.Place)
	if place == nil {
		return nil, nil
	}
	if err := place.Available(); err != nil {
		return nil, err
	}
	ws, err := place.Inspect(ctx, *a)
	return &ws, err
}

// unhealthyBusy returns the error for starting an unhealthy agent that has a task.
func unhealthyBusy(v *fleet.AgentView) *fleet.Error {
	return fleet.Errorf(fleet.ReasonAgentBusy, "the workspace of agent %q runs, but is unhealthy (%s), and its task %s may still run there: starting it again would end the task",
		v.Name, orUnknown(v.StateReason), v.Task.ID).
		Next("wait for it with {wait_tasks}, or end it with {restart_agent}").With("agent_name", v.Name).With("task_id", v.Task.ID).With("state", string(v.State))
}

// RestartAgentRequest describes a restart.
type RestartAgentRequest struct {
	Agent      string
	Role       string            // the new role; empty: the agent keeps its role
	Update     bool              // use the newest version of the project
	TakeOver   bool              // make a workspace of another Fleet or of a person this Fleet's
	Parameters map[string]string // new values; others stay as they are
	RequestID  string            `json:"-"`
}

// RestartAgent stops and starts the agent's workspace with the requested changes, and waits until it is ready, at most
// Config.CreateWait. It first checks whether the workspace can be started with them.
func (s *Service) RestartAgent(ctx context.Context, r RestartAgentRequest) (*fleet.AgentView, string, error) {
	check := func(v *fleet.AgentView) (err error) {
		r.Role, err = s.restartable(ctx, v, r)
		return err
	}
	v, err := s.changeDesired(ctx, "RestartAgent", r.Agent, r.RequestID, r, check, func(v *fleet.AgentView) error {
		v.Desired = fleet.DesiredRunning
		v.Restart++
		v.Attempts, v.RetryAt = 0, time.Time{}
		r.applyTo(&v.Agent)
		return nil
	}, "restart requested")
	if err != nil {
		return nil, "", err
	}
	return s.awaitReady(ctx, v, func(v *fleet.AgentView) string {
		return fmt.Sprintf("Agent '%s' restarted as %s", v.Name, v.Role)
	})
}

// applyTo sets what the next start of the agent's workspace changes.
func (r RestartAgentRequest) applyTo(a *fleet.Agent) {
	a.Next.Update, a.Next.TakeOver = a.Next.Update || r.Update, a.Next.TakeOver || r.TakeOver
	if r.Role != "" {
		a.Role, a.Next.Role = r.Role, true
	}
	if len(r.Parameters) > 0 {
		values := maps.Clone(a.Parameters)
		if values == nil {
			values = map[string]string{}
		}
		maps.Copy(values, r.Parameters)
		a.Parameters, a.Next.Parameters = values, true
	}
}

// restartable checks whether the agent can be restarted as requested, and returns the exact name of the requested role.
func (s *Service) restartable(ctx context.Context, v *fleet.AgentView, r RestartAgentRequest) (role string, err error) {
	place := s.places.Of(&v.Agent)
	if checks, ok := place.Place.(fleet.Versioner); ok && place.Facts.Versions {
		if err := place.Available(); err != nil {
			return "", err
		}
		next := v.Agent
		r.applyTo(&next)
		exact, err := checks.CheckStart(ctx, next)
		if e, ok := errors.AsType[*fleet.Error](err); ok && e.Reason == fleet.ReasonRoleNotFound && v.Host.Outdated && !r.Update {
			err = e.Next("the agent has an older version of its project: {restart_agent} with update takes the newest")
		}
		if err != nil || r.Role == "" {
			return "", asInvalid(err, "role")
		}
		return exact, nil
	}
	switch {
	case r.Update:
		return "", fleet.Invalid(fleet.ReasonInvalidArgument, "update", "agents of the place %q have no versions: restart agent %q without update", place.Name, v.Name)
	case len(r.Parameters) > 0:
		return "", fleet.Invalid(fleet.ReasonInvalidArgument, "parameters", "agents of the place %q have no parameters: restart agent %q without them", place.Name, v.Name)
	case r.Role == "":
		return "", nil
	}
	found, err := place.Catalog.Role(ctx, v.Project, r.Role)
	return found.Name, asInvalid(err, "role")
}

func (s *Service) awaitReady(ctx context.Context, v *fleet.AgentView, done func(*fleet.AgentView) string) (*fleet.AgentView, string, error) {
	v, err := s.waitFor(ctx, v.UID, s.cfg.CreateWait, func(v *fleet.AgentView) bool { return v.Settled() })
	if err != nil {
		return nil, "", err
	}
	return s.ready(v, done(v))
}

// StopAgent stops the agent's workspace, keeps its content, and waits for that, at most Config.CreateWait.
func (s *Service) StopAgent(ctx context.Context, ref, requestID string) (*fleet.AgentView, string, error) {
	v, err := s.changeDesired(ctx, "StopAgent", ref, requestID, nil, nil, func(v *fleet.AgentView) error {
		v.Desired = fleet.DesiredStopped
		v.Restarted = v.Restart
		v.Attempts, v.RetryAt = 0, time.Time{}
		return nil
	}, "stop requested")
	if err != nil {
		return nil, "", err
	}
	v, err = s.waitFor(ctx, v.UID, s.cfg.CreateWait, func(v *fleet.AgentView) bool { return v.Settled() })
	switch {
	case err != nil:
		return nil, "", err
	case v.Settled() && v.State == fleet.StateStopped:
		return v, fmt.Sprintf("Agent '%s' is stopped", v.Name), nil
	case v.Settled() && v.Desired == fleet.DesiredRunning:
		return nil, "", notStopped(v, "it was started meanwhile").Next("{stop_agent} stops it")
	case v.Settled():
		return nil, "", notStopped(v, orUnknown(v.StateReason)).Next("{start_agent} starts it again, {delete_agent} removes it")
	}
	return v, fmt.Sprintf("Agent '%s' is not stopped yet, its workspace is %s: show_agent shows its state", v.Name, v.State), nil
}

// notStopped returns the error for an agent that was to be stopped and is not.
func notStopped(v *fleet.AgentView, why string) *fleet.Error {
	return fleet.Errorf(fleet.ReasonProvisioningFailed, "the workspace of agent %q is not stopped, it is %s: %s", v.Name, v.State, why).
		With("agent_name", v.Name).With("state", string(v.State))
}

// changeDesired changes the desired state of an agent, once per request id, and returns the agent as it was before the
// change. For a repeated request, it returns the agent's current state. args are what else identifies the request. check can
// refuse the change before the transaction. It may be nil, and is not called for a repeated request. change can also refuse
// it.
func (s *Service) changeDesired(
	ctx context.Context, method, ref, requestID string, args any, check, change func(*fleet.AgentView) error, text string,
) (*fleet.AgentView, error) {
	c := Call{Method: method, RequestID: requestID, Body: []any{ref, args}}
	old, err := s.Before(ctx, c)
	if err != nil {
		return nil, err
	}
	if old != nil {
		return s.madeAgent(ctx, *old)
	}
	v, _, err := s.agent(ctx, ref, fleet.AccessOwn)
	if err != nil {
		return nil, err
	}
	if check != nil {
		if err := check(v); err != nil {
			return nil, err
		}
	}
	_, _, err = s.Once(ctx, c, func(tx fleet.Tx) (Made, error) {
		now := s.now()
		current, err := state.AgentView(tx, v.UID)
		if err != nil {
			return Made{}, err
		}
		if current == nil || !current.DeletedAt.IsZero() || current.Desired == fleet.DesiredDeleted && method != "DeleteAgent" {
			return Made{}, fleet.AgentNotFound(v.Name)
		}
		a := &current.Agent
		if err := s.places.Of(a).Available(); err != nil {
			return Made{}, err
		}
		if err := change(current); err != nil {
			return Made{}, err
		}
		if a.Foreign() {
			return Made{}, foreign(a)
		}
		a.UpdatedAt, a.Trace = now, fleet.TraceFrom(ctx)
		if err := tx.UpdateAgent(a); err != nil {
			return Made{}, err
		}
		return Made{AgentUID: a.UID}, tx.Append(a.Event(fleet.EventAgentChanged, now, text))
	})
	return v, err
}

// foreign returns the error for changing an agent whose workspace is not this Fleet's.
func foreign(a *fleet.Agent) *fleet.Error {
	return fleet.Errorf(fleet.ReasonPermissionDenied, "the workspace of agent %q belongs to %s, so this Fleet does not change it", a.Name, a.Host.OtherFleet).
		Next("{restart_agent} with take_over makes it this Fleet's, and ends what runs in it").With("agent_name", a.Name)
}

// ShowAgent returns the agent.
func (s *Service) ShowAgent(ctx context.Context, ref string) (*fleet.AgentView, error) {
	v, _, err := s.agent(ctx, ref, fleet.AccessView)
	return v, err
}

// MayDo returns what the caller may do with the agent.
func (s *Service) MayDo(ctx context.Context, v *fleet.AgentView) (fleet.Access, error) {
	p, err := fleet.PrincipalFrom(ctx)
	return p.May(&v.Agent), err
}

// These limit the lines of a log.
const (
	DefaultLogLines = 200
	MaxLogLines     = 10000
)

// ShowAgentLog returns the last lines of the log of the agent's workspace, and whether there were more.
func (s *Service) ShowAgentLog(ctx context.Context, ref string, lines int) ([]string, bool, error) {
	if lines < 1 || lines > MaxLogLines {
		return nil, false, fleet.Invalid(fleet.ReasonInvalidArgument, "lines", "lines is %d: ask for 1 to %d", lines, MaxLogLines)
	}
	v, _, err := s.agent(ctx, ref, fleet.AccessView)
	if err != nil {
		return nil, false, err
	}
	return s.places.Of(&v.Agent).Log(ctx, v.Agent, lines)
}

// refusedError returns the error with which the place refused to create the agent.
func refusedError(a *fleet.Agent) *fleet.Error {
	e := fleet.Errorf(a.Refused, "%s", a.StateReason).With("agent_name", a.Name)
	if a.RefusedField != "" {
		e = e.With("field", a.RefusedField)
		if e.Code == fleet.InvalidArgument {
			e.Field = a.RefusedField
		}
	}
	return e
}
