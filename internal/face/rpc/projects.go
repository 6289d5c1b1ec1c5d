package rpc

import (
	"context"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
)

// ListAgentProjects lists the projects of all places, and the states of the places.
func (f *Fleet) ListAgentProjects(ctx context.Context, r *fleetv1.ListAgentProjectsRequest) (*fleetv1.ListAgentProjectsResponse, error) {
	projects, places, err := f.svc.ListProjects(ctx)
	if err != nil {
		return nil, err
	}
	part, next, err := fleet.Paginate(projects, cursorPageIn(r.GetCursor(), r.Limit), 0)
	if err != nil {
		return nil, err
	}
	return &fleetv1.ListAgentProjectsResponse{
		Projects: listOf(part, projectOf), TotalCount: int32Of(len(projects)), NextCursor: optional(next), Places: listOf(places, placeOf),
	}, nil
}

// ListAgentRoles lists the roles that an agent of the project can have.
func (f *Fleet) ListAgentRoles(ctx context.Context, r *fleetv1.ListAgentRolesRequest) (*fleetv1.ListAgentRolesResponse, error) {
	roles, err := f.svc.ListRoles(ctx, r.GetProject())
	if err != nil {
		return nil, err
	}
	part, next, err := fleet.Paginate(roles, cursorPageIn(r.GetCursor(), r.Limit), 0)
	if err != nil {
		return nil, err
	}
	return &fleetv1.ListAgentRolesResponse{Roles: listOf(part, roleOf), TotalCount: int32Of(len(roles)), NextCursor: optional(next)}, nil
}
