package rpc

import (
	"context"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/service"
)

// ListPrincipals lists a page of the principals.
func (f *Fleet) ListPrincipals(ctx context.Context, r *fleetv1.ListPrincipalsRequest) (*fleetv1.ListPrincipalsResponse, error) {
	page, next, err := f.svc.ListPrincipals(ctx, r.GetCursor(), intIn(r.Limit))
	if err != nil {
		return nil, err
	}
	return &fleetv1.ListPrincipalsResponse{Principals: listOf(page, principalOf), NextCursor: optional(next)}, nil
}

func principalOf(p service.PrincipalUse) *fleetv1.Principal {
	return &fleetv1.Principal{
		Name: p.Name, Agents: int32Of(p.AllAgents()), RunningTasks: int32Of(p.RunningTasks), StoredBytes: float64(p.StoredBytes), Limits: limitsOf(p.Limits),
	}
}
