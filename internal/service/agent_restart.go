package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"fleet/internal/fleet"
)

// RestartAgentRequest describes a restart.
type RestartAgentRequest struct {
	Agent      string
	Role       string            // the new role; empty: the agent keeps its role
	Update     bool              // use the newest version of the project
	TakeOver   bool              // take over a workspace that belongs to another Fleet or to a person
	Parameters map[string]string // new values; others stay as they are
	RequestID  string            `json:"-"`
}

// RestartAgent stops and starts the agent's workspace with the requested changes, and waits until the agent is ready, at most
// state.Config.CreateWait. It first checks whether the workspace can be started with the changes. It returns the agent and a
// message for the caller.
func (s *Service) RestartAgent(ctx context.Context, r RestartAgentRequest) (v *fleet.AgentView, message string, err error) {
	v, err = s.changeDesiredState(ctx, r.Agent, r.RequestID, s.restartChange(r))
	if err != nil {
		return nil, "", err
	}
	return s.awaitReady(ctx, v, func(v *fleet.AgentView) string {
		return fmt.Sprintf("Agent '%s' restarted as %s", v.Name, v.Role)
	})
}

// restartChange returns the change of RestartAgent.
func (s *Service) restartChange(r RestartAgentRequest) desiredChange {
	args := r // check replaces r.Role by its exact name
	check := func(ctx context.Context, v *fleet.AgentView) (err error) {
		r.Role, err = s.checkRestart(ctx, v, r)
		return err
	}
	return desiredChange{method: "RestartAgent", text: "restart requested", args: args, check: check, change: func(v *fleet.AgentView) error {
		v.Desired = fleet.DesiredRunning
		v.RestartsRequested++
		v.Attempts, v.RetryAt = 0, time.Time{}
		r.applyTo(&v.Agent)
		return nil
	}}
}

// applyTo stores the requested changes in the agent, for the next start of its workspace.
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

// checkRestart checks whether the agent can be restarted as requested. It returns the exact name of the requested role, or "" if the
// request has no role.
func (s *Service) checkRestart(ctx context.Context, v *fleet.AgentView, r RestartAgentRequest) (role string, err error) {
	place := s.places.Of(&v.Agent)
	if err := place.Available(); err != nil {
		return "", err
	}
	if versioner, ok := place.Place.(fleet.Versioner); ok && place.Traits().KeepsVersions {
		next := v.Agent
		r.applyTo(&next)
		exact, err := versioner.CheckStart(ctx, next)
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
		return "", fleet.InvalidField("update", "agents of the place %q have no versions: restart agent %q without update", place.Name, v.Name)
	case len(r.Parameters) > 0:
		return "", fleet.InvalidField("parameters", "agents of the place %q have no parameters: restart agent %q without them", place.Name, v.Name)
	case r.Role == "":
		return "", nil
	}
	found, err := place.Catalog.Role(ctx, v.Project, r.Role)
	return found.Name, asInvalid(err, "role")
}
