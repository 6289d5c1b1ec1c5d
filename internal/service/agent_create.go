package service

import (
	"context"
	"fmt"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// CreateAgentRequest describes the agent to create. An empty Role means the default role of the project.
type CreateAgentRequest struct {
	Name, Project, Role, Spec string
	Parameters                map[string]string `json:",omitempty"` // of the project
	Labels                    fleet.Labels      `json:",omitempty"`
	RequestID                 string            `json:"-"`
}

// CreateAgent creates an agent and waits until it is ready, at most state.Config.CreateWait. If the agent is not ready by then,
// CreateAgent returns it with its current state, and the message says that it is not ready. PROVISIONING_FAILED means that
// its workspace could not be created. The agent then exists in state failed, so that its log can be read. AGENT_OFFLINE and
// AGENT_NOT_FOUND mean that somebody has stopped or deleted the agent since its creation. If the place
// refuses the request, for example because the name is taken there, CreateAgent returns the place's error, and no agent
// exists.
func (s *Service) CreateAgent(ctx context.Context, r CreateAgentRequest) (*fleet.AgentView, string, error) {
	if err := fleet.ValidateAgentName(r.Name); err != nil {
		return nil, "", err
	}
	if err := checkText(fleet.ReasonSpecRequired, "spec", "the agent's spec", r.Spec); err != nil {
		return nil, "", err
	}
	if err := r.Labels.Validate("labels"); err != nil {
		return nil, "", err
	}
	c := Call{Method: "CreateAgent", RequestID: r.RequestID, Body: r}
	result, repeated, err := s.EarlierResult(ctx, c)
	if err == nil && !repeated {
		result, err = s.createAgentOnce(ctx, c, r)
	}
	if err != nil {
		return nil, "", err
	}
	v, err := s.waitForAgent(ctx, result.AgentUID, s.cfg.CreateWait, func(v *fleet.AgentView) bool { return v.Settled() || !v.DeletedAt.IsZero() })
	switch {
	case err != nil:
		return nil, "", err
	case v.RefusalReason != "":
		return nil, "", errCreationRefused(&v.Agent)
	case repeated && !v.DeletedAt.IsZero():
		return nil, "", fleet.Errorf(fleet.ReasonAgentNotFound, "agent %q was created by this request, and has been deleted since", v.Name).With("agent_name", v.Name)
	}
	return s.readyResult(v, fmt.Sprintf("Agent '%s' created successfully", v.Name))
}

// createAgentOnce creates the agent or, for a repeated request, returns the result of the first one. If the project's agents begin to
// work on their specs by themselves, it also creates the task for that.
func (s *Service) createAgentOnce(ctx context.Context, c Call, r CreateAgentRequest) (CallResult, error) {
	draft, err := s.draftAgent(ctx, r)
	if err != nil {
		return CallResult{}, err
	}
	result, _, err := s.Once(ctx, c, func(tx fleet.Tx, p fleet.Principal) (CallResult, error) {
		a, err := s.insertAgent(ctx, tx, p, draft)
		if err != nil {
			return CallResult{}, err
		}
		if draft.project.SpecIsTask {
			t := s.newTask(ctx, p, a, a.Spec, 0, a.CreatedAt)
			t.SelfStarted = true
			err = s.insertTask(tx, p, a, t)
		}
		return CallResult{AgentUID: a.UID}, err
	})
	return result, err
}

// agentDraft is an agent to be added, with the project and the role from its place.
type agentDraft struct {
	CreateAgentRequest
	place   *state.ManagedPlace
	project fleet.Project
	role    fleet.Role
	pool    string
	maxIdle time.Duration
	oneTask bool
	shares  []fleet.Share
}

// draftAgent returns a draft for the request, with the project and the role that the request names. It checks the parameters.
func (s *Service) draftAgent(ctx context.Context, r CreateAgentRequest) (draft agentDraft, err error) {
	draft.CreateAgentRequest = r
	draft.project, draft.role, draft.place, err = s.projectRole(ctx, r.Project, r.Role)
	if err == nil {
		err = draft.project.CheckParameters(draft.role, r.Parameters)
	}
	return draft, err
}

// projectRole returns the project with the name, one of its roles, and its place. An empty roleName means the default role.
func (s *Service) projectRole(ctx context.Context, name, roleName string) (project fleet.Project, role fleet.Role, place *state.ManagedPlace, err error) {
	if project, place, err = s.places.FindFleetProject(ctx, name); err != nil {
		return project, role, place, asInvalid(err, "project")
	}
	if err = place.EnsureListed(ctx); err != nil {
		return project, role, place, err
	}
	role, err = place.Catalog.Role(ctx, project.Name, roleName)
	return project, role, place, asInvalid(err, "role")
}

// insertAgent checks the name, the limits and the rights of the principal, and adds the agent and its events to the store.
func (s *Service) insertAgent(ctx context.Context, tx fleet.Tx, p fleet.Principal, draft agentDraft) (*fleet.Agent, error) {
	if err := draft.place.Available(); err != nil {
		return nil, err
	}
	if same, err := draft.place.AgentWithName(tx, draft.Name, p.Name); err != nil || same != nil {
		if same != nil {
			err = errAgentExists(same.Name)
		}
		return nil, err
	}
	wanted := increase{agents: 1, project: draft.project.Name}
	if draft.project.SpecIsTask {
		wanted.tasks = 1
	}
	if err := admit(ctx, s.Limits(), tx, p, p.Name, wanted); err != nil {
		return nil, err
	}
	now := s.now()
	a := &fleet.Agent{
		UID: s.cfg.NewID(), Name: draft.Name, Owner: p.Name, Place: draft.place.Name, Project: draft.project.Name, Role: draft.role.Name, Spec: draft.Spec, Parameters: draft.Parameters, Labels: draft.Labels.With(nil),
		Pool: draft.pool, MaxIdle: draft.maxIdle, OneTask: draft.oneTask, Shares: draft.shares,
		Host:  fleet.HostFacts{Credential: draft.place.Credential(draft.project.Name)},
		State: fleet.StatePending, Desired: fleet.DesiredRunning, CreatedAt: now, UpdatedAt: now, Trace: fleet.TraceFrom(ctx),
	}
	if err := s.checkConfined(p, a); err != nil {
		return nil, err
	}
	if err := tx.Insert(a); err != nil {
		return nil, err
	}
	events := []*fleet.Event{a.Event(fleet.EventAgentCreated, now, fmt.Sprintf("agent created in project %s as %s", a.Project, a.Role))}
	for _, share := range a.Shares {
		events = append(events, a.Event(fleet.EventAgentShared, now, fmt.Sprintf("shared with %s to %s by %s", share.Grantee, share.Access, share.By)))
	}
	for _, e := range events {
		if err := tx.Append(e); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func errAgentExists(name string) *fleet.Error {
	return fleet.Errorf(fleet.ReasonAgentExists, "agent %q already exists", name).Next("choose another name, or delete it with {delete_agent} first").
		With("agent_name", name).With("field", "name")
}

// readyResult returns the result of a call that has waited for the agent to become ready: the agent and a message, or an error.
// readyMessage is the message for an agent that is ready.
func (s *Service) readyResult(v *fleet.AgentView, readyMessage string) (*fleet.AgentView, string, error) {
	switch {
	case v.State == fleet.StateRunning && v.Settled():
		return v, readyMessage, nil
	case v.State == fleet.StateDeleted || v.Desired == fleet.DesiredDeleted:
		return nil, "", fleet.AgentNotFound(v.Name)
	case v.Foreign():
		return nil, "", errForeign(&v.Agent)
	case v.Settled() && v.State == fleet.StateStopped:
		return nil, "", fleet.Errorf(fleet.ReasonAgentOffline, "agent %q was stopped meanwhile", v.Name).Next("{start_agent} starts it").
			With("agent_name", v.Name).With("state", string(v.State))
	case v.Settled():
		return nil, "", fleet.Errorf(fleet.ReasonProvisioningFailed,
			"the workspace of agent %q is %s: %s", v.Name, v.State, reasonOrUnknown(v.StateReason)).
			Next("{show_agent_log} shows details, {start_agent} tries again, and {delete_agent} removes it").With("agent_name", v.Name).With("state", string(v.State))
	}
	why := ""
	if v.StateReason != "" {
		why = " (" + v.StateReason + ")"
	}
	return v, fmt.Sprintf("Agent '%s' is not ready yet, its workspace is %s%s: show_agent shows its state", v.Name, v.State, why), nil
}

func reasonOrUnknown(reason string) string {
	if reason == "" {
		return "its host does not say why"
	}
	return strings.TrimRight(reason, ". ")
}

// awaitReady waits until the agent is settled, at most state.Config.CreateWait, and returns readyResult. readyMessage returns the
// message for an agent that is ready.
func (s *Service) awaitReady(ctx context.Context, v *fleet.AgentView, readyMessage func(*fleet.AgentView) string) (*fleet.AgentView, string, error) {
	v, err := s.waitForAgent(ctx, v.UID, s.cfg.CreateWait, func(v *fleet.AgentView) bool { return v.Settled() })
	if err != nil {
		return nil, "", err
	}
	return s.readyResult(v, readyMessage(v))
}

// errCreationRefused returns the error with which the place refused to create the agent.
func errCreationRefused(a *fleet.Agent) *fleet.Error {
	e := fleet.Errorf(a.RefusalReason, "%s", a.StateReason).With("agent_name", a.Name)
	if a.RefusalField != "" {
		e = e.With("field", a.RefusalField)
		if e.Code == fleet.InvalidArgument {
			e.Field = a.RefusalField
		}
	}
	return e
}
