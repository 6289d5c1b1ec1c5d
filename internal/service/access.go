package service

import (
	"context"

	"fleet/internal/fleet"
)

// visible returns the owner to whom filters of the store limit what p sees, and the agents of others that p sees besides. The
// owner is empty if p sees everything.
func (s *Service) visible(ctx context.Context, p fleet.Principal) (owner string, shared []string, err error) {
	if p.Admin() {
		return "", nil, nil
	}
	if err := s.snap.Refresh(ctx); err != nil {
		return "", nil, err
	}
	return p.Name, s.snap.Shares().With(p), nil
}

// selection is what a request with the name of an agent selects of what its caller sees.
type selection struct {
	name, owner string
	shared      []string
	projects    []string // the only ones that the caller reaches; empty: all
	uid         string   // of the one agent that is selected; empty if name and owner say which are
}

// selects returns what the reference selects: agents of a name, or with name@owner those of one owner; everything that p sees
// if it is empty. AGENT_NOT_FOUND if p sees nothing of the owner.
func (s *Service) selects(ctx context.Context, p fleet.Principal, ref string) (sel selection, err error) {
	if sel.owner, sel.shared, err = s.visible(ctx, p); err != nil {
		return sel, err
	}
	sel.projects = p.Projects
	name, owner := fleet.ParseAgentRef(ref)
	sel.name = name
	switch {
	case owner == "":
	case p.Owns(owner):
		sel.owner, sel.shared = owner, nil
	default:
		a := s.snap.Shares().Named(p, name, owner)
		if a == nil {
			return sel, fleet.AgentNotFound(ref)
		}
		sel.uid = a.UID
	}
	return sel, nil
}

// accessTo returns what p may do with a thing of the agent, which the owner has.
func accessTo(tx fleet.ReadTx, p fleet.Principal, owner, agentUID string) (fleet.Access, error) {
	if p.OwnsAll(owner) {
		return fleet.AccessOwn, nil
	}
	a, err := tx.Agent(agentUID)
	if err != nil || a == nil {
		return fleet.AccessNone, err
	}
	return p.Access(a), nil
}

// requireAccess returns PERMISSION_DENIED if p, who sees the agent, may not do what needs the access.
func requireAccess(p fleet.Principal, a *fleet.Agent, needed fleet.Access) error {
	return requireLevel(p.Access(a), needed, a.Name, a.Owner)
}

func requireLevel(got, needed fleet.Access, name, owner string) error {
	switch {
	case got.Allows(needed):
		return nil
	case got == fleet.AccessNone:
		return fleet.AgentNotFound(name)
	case needed == fleet.AccessRun:
		return denied(name, owner, "agent %q of %q is shared with you to view: ask its owner to share it with access run")
	}
	return denied(name, owner, "agent %q is shared with you, and only its owner %q and admins can do this")
}

func denied(name, owner, text string) error {
	return fleet.Errorf(fleet.ReasonPermissionDenied, text, name, owner).With("agent_name", name).With("owner", owner)
}
