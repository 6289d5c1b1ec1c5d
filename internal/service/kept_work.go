package service

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
)

// ListKeptWork returns the kept workspaces of deleted agents that the caller owns, of all toolsets, oldest first.
func (s *Service) ListKeptWork(ctx context.Context) ([]fleet.KeptWork, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	all, err := s.places.KeptWork(ctx)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	err = s.store.View(ctx, func(tx fleet.ReadTx) error {
		uids := make([]string, len(all))
		for i, k := range all {
			uids[i] = k.AgentUID
		}
		agents, err := tx.AgentViews(fleet.AgentViewFilter{UIDs: uids})
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(k fleet.KeptWork) bool {
			return !slices.ContainsFunc(agents, func(v *fleet.AgentView) bool {
				return v.UID == k.AgentUID && p.ScopedAccess(&v.Agent) == fleet.AccessOwn
			})
		})
		return nil
	})
	return all, err
}

// RestoreAgentRequest names the deleted agent to restore.
type RestoreAgentRequest struct {
	Agent     string
	ID        string // the agent's uid; empty means the agent of that name that was deleted last
	RequestID string `json:"-"`
}

// RestoreAgent brings a deleted agent back with its kept workspace, and waits until it is ready, at most state.Config.CreateWait. The
// agent is then in no pool, and stays until somebody deletes it. The error is KEPT_WORK_NOT_FOUND if no workspace of the agent is kept,
// and AGENT_EXISTS if the agent is not deleted or another agent has its name.
func (s *Service) RestoreAgent(ctx context.Context, r RestoreAgentRequest) (*fleet.AgentView, string, error) {
	c := Call{Method: "RestoreAgent", RequestID: r.RequestID, Body: r}
	result, repeated, err := s.EarlierResult(ctx, c)
	if err == nil && !repeated {
		result, err = s.restoreAgent(ctx, c, r)
	}
	if err != nil {
		return nil, "", err
	}
	v, err := s.earlierAgent(ctx, result)
	if err != nil {
		return nil, "", err
	}
	return s.awaitReady(ctx, v, func(v *fleet.AgentView) string { return fmt.Sprintf("Agent '%s' is restored", v.Name) })
}

// restoreAgent records that the deleted agent is to be restored.
func (s *Service) restoreAgent(ctx context.Context, c Call, r RestoreAgentRequest) (CallResult, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return CallResult{}, err
	}
	a, err := s.deletedAgent(ctx, p, r)
	if err != nil {
		return CallResult{}, err
	}
	place := s.places.Of(a)
	kept, err := place.KeptWorkOf(ctx, a.UID)
	switch {
	case err != nil:
		return CallResult{}, err
	case kept != nil && a.Toolset != fleet.ToolsetFleet:
		return CallResult{}, fleet.Errorf(fleet.ReasonUnimplemented, "agent %q belonged to the toolset %s, so it cannot be restored: copy what you need from %s", a.Name, a.Toolset, kept.Location)
	case kept == nil:
		return CallResult{}, fleet.Errorf(fleet.ReasonKeptWorkNotFound, "nothing is kept of agent %q: all its work was in its repository, or the time for which it was kept is over", a.Name).
			Next("{list_kept_work} shows the agents that can be restored").With("agent_name", a.Name)
	}
	result, _, err := s.Once(ctx, c, func(tx fleet.Tx, _ fleet.Principal) (CallResult, error) {
		current, err := tx.Agent(a.UID)
		if err != nil || current == nil || current.DeletedAt.IsZero() { // another call has restored it
			return CallResult{AgentUID: a.UID}, err
		}
		if same, err := place.AgentWithName(tx, current.Name, current.Owner); err != nil || same != nil {
			if same != nil {
				err = fleet.Errorf(fleet.ReasonAgentExists, "another agent has the name %q", same.Name).
					Next("delete it with {delete_agent} first: its own work is kept too").With("agent_name", same.Name)
			}
			return CallResult{}, err
		}
		if err := admit(ctx, s.Limits(), tx, p, current.Owner, increase{agents: 1, project: current.Project}); err != nil {
			return CallResult{}, err
		}
		// Nothing may delete the agent again by itself, and no task of a pool may start in its workspace.
		if err := s.leavePool(tx, current); err != nil {
			return CallResult{}, err
		}
		current.OneTask, current.MaxIdle = false, 0
		current.DeletedAt, current.State, current.StateReason, current.Desired = time.Time{}, fleet.StateStopped, "it is being restored", fleet.DesiredRunning
		current.RestartsRequested++
		current.Attempts, current.RetryAt, current.UpdatedAt, current.Trace = 0, time.Time{}, s.now(), fleet.TraceFrom(ctx)
		if err := tx.Update(current); err != nil {
			return CallResult{}, err
		}
		return CallResult{AgentUID: current.UID}, tx.Append(current.Event(fleet.EventAgentCreated, current.UpdatedAt, "agent restored with its kept directory"))
	})
	return result, err
}

// deletedAgent returns the deleted agent that the request names. The error is AGENT_NOT_FOUND if p may not see such an agent, and
// AGENT_EXISTS if the agent is not deleted.
func (s *Service) deletedAgent(ctx context.Context, p fleet.Principal, r RestoreAgentRequest) (a *fleet.Agent, err error) {
	uid := r.ID
	if uid == "" {
		if uid, err = s.lastAgentUID(ctx, r.Agent, fleet.AccessOwn); err != nil {
			return nil, err
		}
	}
	if a, err = view(ctx, s.store, func(tx fleet.ReadTx) (*fleet.Agent, error) { return tx.Agent(uid) }); err != nil {
		return nil, err
	}
	name, _ := fleet.SplitOwnedRef(r.Agent)
	switch {
	case a == nil || p.Access(a) == fleet.AccessNone || r.ID != "" && !strings.EqualFold(a.Name, name):
		return nil, fleet.AgentNotFound(r.Agent)
	case a.DeletedAt.IsZero():
		return nil, fleet.Errorf(fleet.ReasonAgentExists, "agent %q is not deleted", a.Name).
			Next("if another one with its name was deleted, {list_kept_work} shows its id").With("agent_name", a.Name)
	}
	return a, requireAccess(p, a, fleet.AccessOwn)
}

// KeptOf returns the kept workspace of a deleted agent; nil if none is kept. The caller must have checked the access to the agent.
// If the place does not answer, KeptOf returns nil and only logs the error, because the deletion itself has succeeded.
func (s *Service) KeptOf(ctx context.Context, v *fleet.AgentView) *fleet.KeptWork {
	if v.DeletedAt.IsZero() {
		return nil
	}
	k, err := s.places.Of(&v.Agent).KeptWorkOf(ctx, v.UID)
	if err != nil {
		s.log.WarnContext(ctx, "kept work of deleted agent not read", "agent", v.Name, "error", err)
	}
	return k
}
