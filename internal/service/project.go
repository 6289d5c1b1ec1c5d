package service

import (
	"context"
	"slices"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// asInvalid turns a catalog's NotFound error into INVALID_ARGUMENT about the field of the request. It changes that error. It returns
// any other error as it is.
func asInvalid(err error, field string) error {
	if e, ok := err.(*fleet.Error); ok && e.Code == fleet.NotFound { //nolint:errorlint // only the catalog's own errors
		e.Code, e.Field = fleet.InvalidArgument, field
		return e.With("field", field)
	}
	return err
}

// ListProjects returns the projects of the fleet's places, with the names that create_agent accepts, and the states of the places. A
// place that cannot list its projects has a Problem. If no place can, ListProjects fails.
func (s *Service) ListProjects(ctx context.Context) ([]fleet.Project, []fleet.PlaceState, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, nil, err
	}
	all, errs := s.places.Projects(ctx, s.places.Fleet)
	if len(errs) == len(s.places.Fleet) {
		return nil, nil, errs[s.places.Fleet[0].Name]
	}
	for i, ref := range state.ProjectRefs(all) {
		all[i].MaxCost = s.places.Named(all[i].Place).MaxCost(all[i].Name, "")
		all[i].Name = ref
	}
	if err := s.snap.Refresh(ctx); err != nil {
		return nil, nil, err
	}
	states := s.Places(p)
	for i := range states {
		if err := errs[states[i].Name]; err != nil {
			states[i].Problem = fleet.PublicMessage(err)
		}
	}
	return all, states, nil
}

// ListRoles returns the roles of a project.
func (s *Service) ListRoles(ctx context.Context, project string) ([]fleet.Role, error) {
	if _, err := fleet.PrincipalFrom(ctx); err != nil {
		return nil, err
	}
	if project == "" {
		return nil, fleet.InvalidField("project", "project is required").Next("{list_agent_projects} shows the projects")
	}
	p, place, err := s.places.FindFleetProject(ctx, project)
	if err != nil {
		return nil, err
	}
	roles, err := place.Catalog.Roles(ctx, p.Name)
	roles = slices.Clone(roles)
	for i := range roles {
		roles[i].MaxCost = place.MaxCost(p.Name, roles[i].Name)
	}
	return roles, err
}
