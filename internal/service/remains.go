package service

import (
	"context"
	"errors"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// Remains returns what the store keeps of the agent's work, without the bundle; zero if it keeps nothing. The caller must have checked
// the access to the agent.
func (s *Service) Remains(ctx context.Context, v *fleet.AgentView) (fleet.Remains, error) {
	known, err := view(ctx, s.store, func(tx fleet.ReadTx) (*fleet.Remains, error) { return tx.Remains(v.UID) })
	if err != nil || known == nil {
		return fleet.Remains{}, err
	}
	return *known, nil
}

// DownloadBundle returns the agent and a git bundle of its work that exists nowhere else: the current work of an existing agent,
// or the kept work of a deleted agent. The error is BUNDLE_NOT_FOUND if there is no such work.
func (s *Service) DownloadBundle(ctx context.Context, ref string) (*fleet.Agent, []byte, error) {
	if ref == "" {
		return nil, nil, fleet.InvalidField("agent_name", "agent_name is required").Next("{list_agents} shows the names")
	}
	uid, err := s.lastAgentUID(ctx, ref, fleet.AccessView)
	if err != nil {
		return nil, nil, err
	}
	var a *fleet.Agent
	var content []byte
	var kept *fleet.Remains
	if err := s.store.View(ctx, func(tx fleet.ReadTx) (err error) {
		if a, err = tx.Agent(uid); err != nil || a == nil {
			return err
		}
		if kept, err = tx.RemainsWithBundle(uid); kept != nil {
			content = kept.Bundle
		}
		return err
	}); err != nil {
		return nil, nil, err
	}
	if a == nil {
		return nil, nil, fleet.AgentNotFound(ref)
	}
	traits := s.places.Of(a).Traits()
	if content == nil && traits.SupportsBundles && (a.DeletedAt.IsZero() || traits.KeepsWork) {
		content, err = s.places.Bundle(ctx, a)
		if errors.Is(err, state.ErrBundleTooLarge) {
			err = fleet.Errorf(fleet.ReasonLimitReached, "the work of agent %q is more than %d bytes: push it from its workspace", a.Name, s.cfg.MaxBundle).With("limit", "max_bundle")
		}
		if err != nil {
			return nil, nil, err
		}
	}
	if len(content) == 0 {
		return nil, nil, errNoBundle(a, kept, s.KeptOf(ctx, &fleet.AgentView{Agent: *a}))
	}
	return a, content, nil
}

// errNoBundle returns BUNDLE_NOT_FOUND, and says why. kept is what the store keeps of the agent, and workspace is its kept workspace; nil
// if there is none.
func errNoBundle(a *fleet.Agent, kept *fleet.Remains, workspace *fleet.KeptWork) *fleet.Error {
	why := "it does not work in a repository, or all of its work also exists elsewhere"
	switch {
	case workspace != nil:
		return fleet.Errorf(fleet.ReasonBundleNotFound, "agent %q has no commits to rescue, but its directory is kept: %s", a.Name, workspace.Reason).
			Next("{restore_agent} brings the agent back").With("agent_name", a.Name)
	case kept != nil && kept.LostWork != "":
		why = kept.LostWork
	case !a.DeletedAt.IsZero() && kept == nil:
		why = "nothing was kept when it was deleted, or the retention period is over"
	}
	return fleet.Errorf(fleet.ReasonBundleNotFound, "agent %q has nothing to rescue: %s", a.Name, why).With("agent_name", a.Name)
}
