package rpc

import (
	"context"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/service"
)

// ShareAgent shares an agent.
func (f *Fleet) ShareAgent(ctx context.Context, r *fleetv1.ShareAgentRequest) (*fleetv1.ShareAgentResponse, error) {
	a, message, err := f.svc.ShareAgent(ctx, service.ShareRequest{
		Agent: r.GetAgentName(), Grantee: fleet.Grantee{Person: r.GetPerson(), Group: r.GetGroup()}, Access: fleet.Access(nameIn(r.GetAccess())), RequestID: r.GetRequestId(),
	})
	if err != nil {
		return nil, err
	}
	return &fleetv1.ShareAgentResponse{Message: message, Shares: listOf(a.Shares, shareOf)}, nil
}

// UnshareAgent removes the share of one person or group.
func (f *Fleet) UnshareAgent(ctx context.Context, r *fleetv1.UnshareAgentRequest) (*fleetv1.UnshareAgentResponse, error) {
	a, message, err := f.svc.UnshareAgent(ctx, service.ShareRequest{
		Agent: r.GetAgentName(), Grantee: fleet.Grantee{Person: r.GetPerson(), Group: r.GetGroup()}, RequestID: r.GetRequestId(),
	})
	if err != nil {
		return nil, err
	}
	return &fleetv1.UnshareAgentResponse{Message: message, Shares: listOf(a.Shares, shareOf)}, nil
}

// ListAgentShares lists with whom an agent is shared.
func (f *Fleet) ListAgentShares(ctx context.Context, r *fleetv1.ListAgentSharesRequest) (*fleetv1.ListAgentSharesResponse, error) {
	shares, err := f.svc.AgentShares(ctx, r.GetAgentName())
	if err != nil {
		return nil, err
	}
	return &fleetv1.ListAgentSharesResponse{Shares: listOf(shares, shareOf)}, nil
}

func shareOf(s fleet.Share) *fleetv1.Share {
	return &fleetv1.Share{Person: s.Person, Group: s.Group, SharedBy: s.By, SharedAt: timeOf(s.At), Access: accessOf(s.Access)}
}

func accessOf(a fleet.Access) fleetv1.Share_Access {
	return fleetv1.Share_Access(fleetv1.Share_Access_value[string(a)])
}
