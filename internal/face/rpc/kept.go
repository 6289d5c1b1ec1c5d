package rpc

import (
	"context"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/service"
)

// ListKeptWork lists the kept workspaces of deleted agents.
func (f *Fleet) ListKeptWork(ctx context.Context, r *fleetv1.ListKeptWorkRequest) (*fleetv1.ListKeptWorkResponse, error) {
	all, err := f.svc.ListKeptWork(ctx)
	if err != nil {
		return nil, err
	}
	part, next, err := fleet.Paginate(all, cursorPageIn(r.GetCursor(), r.Limit), 0)
	if err != nil {
		return nil, err
	}
	return &fleetv1.ListKeptWorkResponse{Kept: listOf(part, keptOf), TotalCount: int32Of(len(all)), NextCursor: optional(next)}, nil
}

// RestoreAgent restores a deleted agent whose workspace was kept.
func (f *Fleet) RestoreAgent(ctx context.Context, r *fleetv1.RestoreAgentRequest) (*fleetv1.RestoreAgentResponse, error) {
	v, message, err := f.svc.RestoreAgent(ctx, service.RestoreAgentRequest{Agent: r.GetAgentName(), ID: r.GetAgentId(), RequestID: r.GetRequestId()})
	if err != nil {
		return nil, err
	}
	return &fleetv1.RestoreAgentResponse{Agent: agentOf(v), Message: message, Unfinished: optional(!v.Settled())}, nil
}

func keptOf(k fleet.KeptWork) *fleetv1.KeptWork {
	return &fleetv1.KeptWork{
		AgentName: k.AgentName, AgentId: k.AgentUID, Owner: k.Owner, Project: k.Project, Place: k.Place, Reason: textOf(k.Reason), Location: textOf(k.Location),
		Size: float64(k.Size), KeptAt: timeOf(k.KeptAt), ExpiresAt: timeOf(k.Until),
	}
}
