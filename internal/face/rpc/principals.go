package rpc

import (
	"context"

	fleetv1 "fleet/gen/fleet/v1"
)

// ListPrincipals lists a page of the principals.
func (f *Fleet) ListPrincipals(ctx context.Context, r *fleetv1.ListPrincipalsRequest) (*fleetv1.ListPrincipalsResponse, error) {
	page, next, err := f.svc.ListPrincipals(ctx, r.GetCursor(), intOf(r.Limit))
	if err != nil {
		return nil, err
	}
	resp := &fleetv1.ListPrincipalsResponse{Principals: make([]*fleetv1.Principal, len(page)), NextCursor: optional(next)}
	for i, p := range page {
		resp.Principals[i] = &fleetv1.Principal{
			Name: p.Name, Agents: int32Of(p.AllAgents()), RunningTasks: int32Of(p.RunningTasks), StoredBytes: float64(p.StoredBytes), Limits: limitsOf(p.Limits),
		}
	}
	return resp, nil
}
