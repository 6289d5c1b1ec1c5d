package service

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"fleet/internal/fleet"
)

// ShareRequest names an agent and the person or the group with whom ShareAgent shares it, or with whom UnshareAgent ends the share.
type ShareRequest struct {
	Agent string
	fleet.Grantee
	Access    fleet.Access // AccessView or AccessRun; empty means AccessView. UnshareAgent ignores it.
	RequestID string       `json:"-"`
}

// ShareAgent lets a person or a group see the agent, or also run tasks on it. It replaces a share of other access with the same
// grantee. Only the owner and admins can share. The returned text tells people with whom the agent is shared.
func (s *Service) ShareAgent(ctx context.Context, r ShareRequest) (*fleet.Agent, string, error) {
	r.Access = cmp.Or(r.Access, fleet.AccessView)
	if r.Access != fleet.AccessView && r.Access != fleet.AccessRun {
		return nil, "", fleet.InvalidField("access", "access %q is not view or run", r.Access)
	}
	return s.changeShares(ctx, "ShareAgent", r, func(p fleet.Principal, a *fleet.Agent) (*fleet.Event, error) {
		if r.Group != "" {
			if err := fleet.CheckGroup(r.Group); err != nil {
				return nil, fleet.InvalidField("group", "%v", err)
			}
		}
		if r.Person == a.Owner {
			return nil, fleet.InvalidField("person", "agent %q belongs to %q: share it with somebody else", a.Name, a.Owner)
		}
		share := fleet.Share{Grantee: r.Grantee, Access: r.Access, By: p.Name, At: s.now()}
		i := shareIndex(a, r.Grantee)
		switch {
		case i >= 0 && a.Shares[i].Access == r.Access:
			return nil, nil //nolint:nilnil // nothing changes
		case i >= 0:
			a.Shares = slices.Clone(a.Shares)
			a.Shares[i] = share
		case len(a.Shares) >= fleet.MaxShares:
			return nil, fleet.Errorf(fleet.ReasonLimitReached, "agent %q is shared %d times, which is the limit: share it with a group", a.Name, len(a.Shares)).
				AtLimit("shares", int64(len(a.Shares)), fleet.MaxShares).After(fleet.LimitRetryAfter).With("agent_name", a.Name)
		default:
			a.Shares = append(slices.Clone(a.Shares), share)
		}
		return a.Event(fleet.EventAgentShared, s.now(), fmt.Sprintf("shared with %s to %s", r.Grantee, r.Access)), nil
	})
}

// UnshareAgent ends the share of a person or a group. It takes effect at once, also for waiting calls. It is not an error if
// the share does not exist.
func (s *Service) UnshareAgent(ctx context.Context, r ShareRequest) (*fleet.Agent, string, error) {
	return s.changeShares(ctx, "UnshareAgent", r, func(_ fleet.Principal, a *fleet.Agent) (*fleet.Event, error) {
		i := shareIndex(a, r.Grantee)
		if i < 0 {
			return nil, nil //nolint:nilnil // nothing changes
		}
		if a.Shares = slices.Delete(slices.Clone(a.Shares), i, i+1); len(a.Shares) == 0 {
			a.Shares = nil
		}
		return a.Event(fleet.EventAgentUnshared, s.now(), fmt.Sprintf("no longer shared with %s", r.Grantee)), nil
	})
}

// AgentShares returns the shares of an agent that the caller may see, even if the agent is deleted.
func (s *Service) AgentShares(ctx context.Context, ref string) ([]fleet.Share, error) {
	uid, err := s.lastAgentUID(ctx, ref, fleet.AccessView)
	if err != nil {
		return nil, err
	}
	a, err := view(ctx, s.store, func(tx fleet.ReadTx) (*fleet.Agent, error) { return tx.Agent(uid) })
	if err != nil || a == nil {
		return nil, err
	}
	return a.Shares, nil
}

// changeShares changes the agent's shares once per request id. It returns the agent, and a text for people about the share with the
// grantee. change returns the event, or nil if nothing changes.
func (s *Service) changeShares(
	ctx context.Context, method string, r ShareRequest, change func(fleet.Principal, *fleet.Agent) (*fleet.Event, error),
) (*fleet.Agent, string, error) {
	if err := r.Validate(); err != nil {
		return nil, "", err
	}
	v, p, err := s.agent(ctx, r.Agent, fleet.AccessOwn)
	c := Call{Method: method, RequestID: r.RequestID, Body: r, Refusal: err}
	v, err = s.changeAgent(ctx, c, v, fleet.AccessOwn, func(_ fleet.Tx, a *fleet.Agent) (*fleet.Event, error) { return change(p, a) })
	if err != nil {
		return nil, "", err
	}
	if i := shareIndex(&v.Agent, r.Grantee); i >= 0 {
		return &v.Agent, fmt.Sprintf("Agent '%s' is shared with %s to %s", v.Name, r.Grantee, v.Shares[i].Access), nil
	}
	return &v.Agent, fmt.Sprintf("Agent '%s' is not shared with %s", v.Name, r.Grantee), nil
}

// shareIndex returns the index of the agent's share with the grantee; negative if there is none.
func shareIndex(a *fleet.Agent, g fleet.Grantee) int {
	return slices.IndexFunc(a.Shares, func(s fleet.Share) bool { return s.Grantee == g })
}
