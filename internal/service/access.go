package service

import (
	"context"

	"fleet/internal/fleet"
)

// ownerFilter returns the fields Owner and SharedUIDs of a store's filter, so that it selects only objects that p may see. The owner is
// empty if p may see everything.
func (s *Service) ownerFilter(ctx context.Context, p fleet.Principal) (owner string, sharedUIDs []string, err error) {
	if p.Admin() {
		return "", nil, nil
	}
	if err := s.snap.Refresh(ctx); err != nil {
		return "", nil, err
	}
	return p.Name, s.snap.Shares().SharedWith(p), nil
}

// selection says which agents a request is about, out of those that its caller may see.
type selection struct {
	name, owner string
	sharedUIDs  []string // see fleet.TaskFilter
	projects    []string // the caller's credentials are restricted to these; empty: they are not restricted
	uid         string   // the selected agent; empty if name and owner select agents
}

// selectAgents returns the selection of agents for the reference, out of the agents that p may see: "papi" selects all agents of that
// name, "papi@alice" selects alice's agent, and "" selects all agents. The error is AGENT_NOT_FOUND if the reference names another
// owner and p may not see that owner's agent.
func (s *Service) selectAgents(ctx context.Context, p fleet.Principal, ref string) (sel selection, err error) {
	if sel.owner, sel.sharedUIDs, err = s.ownerFilter(ctx, p); err != nil {
		return sel, err
	}
	sel.projects = p.Projects
	name, owner := fleet.SplitOwnedRef(ref)
	sel.name = name
	switch {
	case owner == "":
	case p.Owns(owner):
		sel.owner, sel.sharedUIDs = owner, nil
	default:
		a := s.snap.Shares().Named(p, name, owner)
		if a == nil {
			return sel, fleet.AgentNotFound(ref)
		}
		sel.uid = a.UID
	}
	return sel, nil
}

// accessToAgent returns the access of p to the agent, which belongs to owner, and to its tasks, questions and events.
func accessToAgent(tx fleet.ReadTx, p fleet.Principal, owner, agentUID string) (fleet.Access, error) {
	if p.OwnsAll(owner) {
		return fleet.AccessOwn, nil
	}
	a, err := tx.Agent(agentUID)
	if err != nil || a == nil {
		return fleet.AccessNone, err
	}
	return p.Access(a), nil
}

// withLastGroups returns the principal with its last known groups. Fleet needs them when it acts later on behalf of a caller.
func (s *Service) withLastGroups(ctx context.Context, p fleet.Principal) (fleet.Principal, error) {
	return view(ctx, s.store, func(tx fleet.ReadTx) (fleet.Principal, error) { return withLastGroupsIn(tx, p) })
}

// withLastGroupsIn works like withLastGroups, in the transaction tx.
func withLastGroupsIn(tx fleet.ReadTx, p fleet.Principal) (fleet.Principal, error) {
	known, err := tx.Identity(fleet.IdentityKey{Principal: p.Name})
	if known != nil {
		p.Groups = known.Groups
	}
	return p, err
}

// accessToTask returns the access of p to the task. The task need not have an agent yet.
func accessToTask(tx fleet.ReadTx, p fleet.Principal, t *fleet.Task) (fleet.Access, error) {
	if isLimitedToTree(p) {
		return accessToDescendant(tx, p, t)
	}
	if t.AgentUID != "" || p.OwnsAll(t.Owner) {
		return accessToAgent(tx, p, t.Owner, t.AgentUID)
	}
	q, err := fleet.First(tx.Queue(fleet.QueueFilter{TaskIDs: []string{t.ID}}))
	if err != nil || q == nil {
		return fleet.AccessNone, err
	}
	return accessToPending(p, q), nil
}

// taskVisible reports whether p may see the task with the id. Only principals that see everything may see a task that no longer exists
// or has no id.
func taskVisible(tx fleet.ReadTx, p fleet.Principal, id string) (bool, error) {
	if p.SeesAll() {
		return true, nil
	}
	if id == "" {
		return false, nil
	}
	t, err := tx.Task(id)
	if err != nil || t == nil {
		return false, err
	}
	access, err := accessToTask(tx, p, t)
	return access != fleet.AccessNone, err
}

// accessToPending returns the access of p to a pending task without an agent. A principal that has queued the task for the
// pool of another owner has AccessRun.
func accessToPending(p fleet.Principal, q *fleet.QueuedTask) fleet.Access {
	switch t := q.Entry.Target; {
	case !p.Reaches(t.Place, t.Project):
		return fleet.AccessNone
	case p.Owns(q.Owner):
		return fleet.AccessOwn
	case p.Name == q.Entry.By && p.AgentUID == "":
		return fleet.AccessRun
	}
	return fleet.AccessNone
}

// requireAccess returns PERMISSION_DENIED if p may see the agent but does not have the needed access to it, and
// AGENT_NOT_FOUND if p may not see the agent.
func requireAccess(p fleet.Principal, a *fleet.Agent, needed fleet.Access) error {
	return requireAccessLevel(p.Access(a), needed, a.Name, a.Owner)
}

// requireAccessLevel works like requireAccess, for a principal with the access got.
func requireAccessLevel(got, needed fleet.Access, name, owner string) error {
	switch {
	case got.Allows(needed):
		return nil
	case got == fleet.AccessNone:
		return fleet.AgentNotFound(name)
	case needed == fleet.AccessRun:
		return errPermissionDenied(name, owner, "agent %q of %q is shared with you to view: ask its owner to share it with access run")
	}
	return errPermissionDenied(name, owner, "agent %q is shared with you, and only its owner %q and admins can do this")
}

// checkReach returns PERMISSION_DENIED if the credentials of p are not valid for the project at the place.
func checkReach(p fleet.Principal, place, project string) error {
	if p.Reaches(place, project) {
		return nil
	}
	return fleet.Errorf(fleet.ReasonPermissionDenied, "the token of %q is only valid for agents of these projects: %s", p.Name, fleet.JoinNames(p.Projects))
}

// errPermissionDenied returns PERMISSION_DENIED. text is a format for the agent's name and its owner.
func errPermissionDenied(name, owner, text string) error {
	return fleet.Errorf(fleet.ReasonPermissionDenied, text, name, owner).With("agent_name", name).With("owner", owner)
}
