package service

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"fleet/internal/fleet"
)

// ShareRequest says with whom an agent is shared, or no longer shared.
type ShareRequest struct {
	Agent string
	fleet.Grantee
	Access    fleet.Access // AccessView or AccessRun; empty means AccessView. UnshareAgent ignores it.
	RequestID string       `json:"-"`
}

// ShareAgent lets a person or a group see the agent, or also run tasks on it. It replaces a share with the same grantee.
// Only the owner and admins can share.
func (s *Service) ShareAgent(ctx context.Context, r ShareRequest) (*fleet.Agent, string, error) {
	r.Access = cmp.Or(r.Access, fleet.AccessView)
	if r.Access != fleet.AccessView && r.Access != fleet.AccessRun {
		return nil, "", invalid("access", "access %q is not view or run", r.Access)
	}
	return s.changeShares(ctx, "ShareAgent", r, func(p fleet.Principal, a *fleet.Agent) (string, error) {
		if r.Group != "" {
			if err := fleet.CheckGroup(r.Group); err != nil {
				return "", invalid("group", "%v", err)
			}
		}
		if r.Person == a.Owner {
			return "", invalid("person", "agent %q belongs to %q: share it with somebody else", a.Name, a.Owner)
		}
		share := fleet.Share{Grantee: r.Grantee, Access: r.Access, By: p.Name, At: s.now()}
		i := shareIndex(a, r.Grantee)
		switch {
		case i >= 0 && a.Shares[i].Access == r.Access:
			return "", nil
		case i >= 0:
			a.Shares = slices.Clone(a.Shares)
			a.Shares[i] = share
		case len(a.Shares) >= fleet.MaxShares:
			return "", fleet.Errorf(fleet.ReasonLimitReached, "agent %q is shared %d times, which is the limit: share it with a group", a.Name, len(a.Shares)).
				AtLimit("shares", int64(len(a.Shares)), fleet.MaxShares).After(fleet.HeldRetry).With("agent_name", a.Name)
		default:
			a.Shares = append(slices.Clone(a.Shares), share)
		}
		return fmt.Sprintf("shared with %s to %s", r.Grantee, r.Access), nil
	})
}

// UnshareAgent ends the share of a person or a group. It takes effect at once, also for waiting calls. It is not an error if
// the share does not exist.
func (s *Service) UnshareAgent(ctx context.Context, r ShareRequest) (*fleet.Agent, string, error) {
	return s.changeShares(ctx, "UnshareAgent", r, func(_ fleet.Principal, a *fleet.Agent) (string, error) {
		i := shareIndex(a, r.Grantee)
		if i < 0 {
			return "", nil
		}
		if a.Shares = slices.Delete(slices.Clone(a.Shares), i, i+1); len(a.Shares) == 0 {
			a.Shares = nil
		}
		return fmt.Sprintf("no longer shared with %s", r.Grantee), nil
	})
}

// AgentShares returns the shares of an agent that the caller may see, even if the agent is deleted.
func (s *Service) AgentShares(ctx context.Context, ref string) (shares []fleet.Share, err error) {
	uid, err := s.lastAgentUID(ctx, ref, fleet.AccessView)
	if err != nil {
		return nil, err
	}
	err = s.store.View(ctx, func(tx fleet.ReadTx) error {
		a, err := tx.Agent(uid)
		if err == nil && a != nil {
			shares = a.Shares
		}
		return err
	})
	return shares, err
}

// changeShares changes the agent's shares once per request id. change returns the event's text, or "" if nothing changes.
func (s *Service) changeShares(
	ctx context.Context, method string, r ShareRequest, change func(fleet.Principal, *fleet.Agent) (string, error),
) (*fleet.Agent, string, error) {
	if err := r.Validate(); err != nil {
		return nil, "", err
	}
	c := Call{Method: method, RequestID: r.RequestID, Body: r}
	result, err := s.writeShares(ctx, c, r.Agent, change)
	if err != nil {
		return nil, "", err
	}
	v, err := s.earlierAgent(ctx, result)
	if err != nil {
		return nil, "", err
	}
	if i := shareIndex(&v.Agent, r.Grantee); i >= 0 {
		return &v.Agent, fmt.Sprintf("Agent '%s' is shared with %s to %s", v.Name, r.Grantee, v.Shares[i].Access), nil
	}
	return &v.Agent, fmt.Sprintf("Agent '%s' is not shared with %s", v.Name, r.Grantee), nil
}

func (s *Service) writeShares(ctx context.Context, c Call, ref string, change func(fleet.Principal, *fleet.Agent) (string, error)) (CallResult, error) {
	v, p, err := s.agent(ctx, ref, fleet.AccessOwn)
	c.Refused = err
	result, _, err := s.Once(ctx, c, func(tx fleet.Tx) (CallResult, error) {
		current, err := agentForUpdate(tx, p, v, fleet.AccessOwn)
		if err != nil {
			return CallResult{}, err
		}
		a := &current.Agent
		result := CallResult{AgentUID: a.UID}
		text, err := change(p, a)
		if err != nil || text == "" {
			return result, err
		}
		a.UpdatedAt = s.now()
		if err := tx.Update(a); err != nil {
			return result, err
		}
		event := fleet.EventAgentShared
		if c.Method == "UnshareAgent" {
			event = fleet.EventAgentUnshared
		}
		return result, tx.Append(a.Event(event, a.UpdatedAt, text))
	})
	return result, err
}

// shareIndex returns the index of the agent's share with the grantee; negative if there is none.
func shareIndex(a *fleet.Agent, g fleet.Grantee) int {
	return slices.IndexFunc(a.Shares, func(s fleet.Share) bool { return s.Grantee == g })
}
