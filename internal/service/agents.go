package service

import (
	"context"
	"fmt"
	"strings"
	"time"

	"fleet/internal/fleet"
)

// CreateAgentRequest describes the agent to create.
type CreateAgentRequest struct {
	Name, Project, Role, Spec string
	RequestID                 string `json:"-"`
}

// CreateAgent creates an agent and waits until it is ready, at most Config.CreateWait. If the agent is not ready by then,
// CreateAgent returns it with its current state, and the message says that it is not ready. PROVISIONING_FAILED means that
// its workspace could not be created. The agent then exists in state failed, so that its log can be read. If the place
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
		return v, fmt.Sprintf("Agent '%s' was created by this request, and has been deleted since", v.Name), nil
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
		if err := admit(ctx, s.cfg.Limits, tx, p, p.Name, wanted); err != nil {
			return Made{}, err
		}
		now := s.now()
		a := &fleet.Agent{
			UID: s.cfg.NewID(), Name: r.Name, Owner: p.Name, Place: place.Name, Project: project.Name, Role: role.Name, Spec: r.Spec,
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
	case v.Settled() && v.State == fleet.StateStopped:
		return v, fmt.Sprintf("Agent '%s' was stopped meanwhile: start_agent starts it", v.Name), nil
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

// DeleteAgent destroys the agent's workspace, even if it is busy, and waits for that, at most Config.CreateWait.
func (s *Service) DeleteAgent(ctx context.Context, ref, requestID string) (*fleet.AgentView, string, error) {
	v, err := s.changeDesired(ctx, "DeleteAgent", ref, requestID, "", nil, func(a *fleet.Agent) {
		a.Desired = fleet.DesiredDeleted
		a.Attempts, a.RetryAt = 0, time.Time{}
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

// StartAgent starts the agent's workspace and waits until it is ready, at most Config.CreateWait.
func (s *Service) StartAgent(ctx context.Context, ref, requestID string) (*fleet.AgentView, string, error) {
	v, err := s.changeDesired(ctx, "StartAgent", ref, requestID, "", nil, func(a *fleet.Agent) {
		if a.Desired == fleet.DesiredRunning && (a.State == fleet.StateRunning || a.State.Moving()) {
			return
		}
		a.Desired = fleet.DesiredRunning
		a.Restart++
		a.Attempts, a.RetryAt = 0, time.Time{}
	}, "start requested")
	if err != nil {
		return nil, "", err
	}
	return s.awaitReady(ctx, v, func(v *fleet.AgentView) string { return fmt.Sprintf("Agent '%s' is running", v.Name) })
}

// RestartAgent stops and starts the agent's workspace, in another role if one is given, and waits until it is ready, at
// most Config.CreateWait.
func (s *Service) RestartAgent(ctx context.Context, ref, role, requestID string) (*fleet.AgentView, string, error) {
	resolve := func(v *fleet.AgentView) error {
		if role == "" {
			return nil
		}
		r, err := s.places.Of(&v.Agent).Catalog.Role(ctx, v.Project, role)
		if err == nil {
			role = r.Name
		}
		return asInvalid(err, "role")
	}
	v, err := s.changeDesired(ctx, "RestartAgent", ref, requestID, role, resolve, func(a *fleet.Agent) {
		a.Desired = fleet.DesiredRunning
		a.Restart++
		a.Attempts, a.RetryAt = 0, time.Time{}
		if role != "" {
			a.Role = role
		}
	}, "restart requested")
	if err != nil {
		return nil, "", err
	}
	return s.awaitReady(ctx, v, func(v *fleet.AgentView) string {
		return fmt.Sprintf("Agent '%s' restarted as %s", v.Name, v.Role)
	})
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
	v, err := s.changeDesired(ctx, "StopAgent", ref, requestID, "", nil, func(a *fleet.Agent) {
		a.Desired = fleet.DesiredStopped
		a.Restarted = a.Restart
		a.Attempts, a.RetryAt = 0, time.Time{}
	}, "stop requested")
	if err != nil {
		return nil, "", err
	}
	v, err = s.waitFor(ctx, v.UID, s.cfg.CreateWait, func(v *fleet.AgentView) bool { return v.Settled() })
	switch {
	case err != nil:
		return nil, "", err
	case v.Settled():
		return v, fmt.Sprintf("Agent '%s' is %s", v.Name, v.State), nil
	}
	return v, fmt.Sprintf("Agent '%s' is not stopped yet, its workspace is %s: show_agent shows its state", v.Name, v.State), nil
}

// changeDesired changes the desired state of an agent, once per request id, and returns the agent as it was before the
// change. For a repeated request, it returns the agent's current state. check can refuse the change. It may be nil, and is
// not called for a repeated request.
func (s *Service) changeDesired(
	ctx context.Context, method, ref, requestID, arg string, check func(*fleet.AgentView) error, change func(*fleet.Agent), text string,
) (*fleet.AgentView, error) {
	c := Call{Method: method, RequestID: requestID, Body: []string{ref, arg}}
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
		a, err := tx.Agent(v.UID)
		if err != nil {
			return Made{}, err
		}
		if a == nil || !a.DeletedAt.IsZero() || a.Desired == fleet.DesiredDeleted && method != "DeleteAgent" {
			return Made{}, fleet.AgentNotFound(v.Name)
		}
		if err := s.places.Of(a).Available(); err != nil {
			return Made{}, err
		}
		now := s.now()
		change(a)
		a.UpdatedAt, a.Trace = now, fleet.TraceFrom(ctx)
		if err := tx.UpdateAgent(a); err != nil {
			return Made{}, err
		}
		return Made{AgentUID: a.UID}, tx.Append(a.Event(fleet.EventAgentChanged, now, text))
	})
	return v, err
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
