package service

import (
	"context"
	"slices"
	"strings"

	"fleet/internal/fleet"
)

// AgentList is a page of the matching agents, with the states of the fleet's places.
type AgentList struct {
	*fleet.AgentPage
	Places []fleet.PlaceState
}

// refreshAgents brings the snapshot up to date. The error is BACKEND_UNAVAILABLE if the agents of no place are known yet.
func (s *Service) refreshAgents(ctx context.Context) error {
	if err := s.places.EnsureAnyListed(ctx); err != nil {
		return err
	}
	return s.snap.Refresh(ctx)
}

// ListAgents returns the matching agents, and the states of the fleet's places. It calls places only to check the project or
// the role of the filter. The error is BACKEND_UNAVAILABLE if the agents of no place are known yet.
func (s *Service) ListAgents(ctx context.Context, r fleet.ListAgentsRequest) (*AgentList, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	place, err := s.resolveFilter(ctx, &r)
	if err != nil {
		return nil, err
	}
	if err := s.refreshAgents(ctx); err != nil {
		return nil, err
	}
	rows, err := s.snap.AgentLists().List(p, r, place)
	if err != nil {
		return nil, err
	}
	return &AgentList{AgentPage: rows, Places: s.Places(p)}, nil
}

// resolveFilter replaces the filter's project by its exact name from the catalogs. It returns an error if the status, the project or
// the role is unknown. place is the place that the project's reference names, or "" for all places.
func (s *Service) resolveFilter(ctx context.Context, r *fleet.ListAgentsRequest) (place string, err error) {
	switch r.Status {
	case "", fleet.StatusBusy, fleet.StatusIdle, fleet.StatusOffline:
	default:
		return "", fleet.InvalidField("status", "status %q is not busy, idle or offline", r.Status)
	}
	var projects []fleet.Project
	switch {
	case r.Project != "":
		projects, place, err = s.places.MatchFleetProjects(ctx, r.Project)
		if err != nil {
			return "", asInvalid(err, "project")
		}
		r.Project = projects[0].Name
	case r.Role != "":
		all, errs := s.places.Projects(ctx, s.places.Fleet)
		if len(errs) == len(s.places.Fleet) {
			return "", errs[s.places.Fleet[0].Name]
		}
		projects = all
	}
	if r.Role == "" {
		return place, nil
	}
	return place, s.checkRoleExists(ctx, r.Role, projects)
}

// checkRoleExists returns ROLE_NOT_FOUND if no project has the role. It returns nil if a place does not answer, because a project of
// that place may have the role.
func (s *Service) checkRoleExists(ctx context.Context, name string, projects []fleet.Project) error {
	var names []string
	for _, p := range projects {
		roles, err := s.places.Named(p.Place).Catalog.Roles(ctx, p.Name)
		if fleet.ReasonOf(err) == fleet.ReasonBackendUnavailable {
			return nil
		}
		if err != nil {
			return err
		}
		for _, role := range roles {
			if strings.EqualFold(role.Name, name) {
				return nil
			}
			if !slices.Contains(names, role.Name) {
				names = append(names, role.Name)
			}
		}
	}
	if len(projects) == 1 {
		_, err := s.places.Named(projects[0].Place).Catalog.Role(ctx, projects[0].Name, name)
		return asInvalid(err, "role")
	}
	return fleet.Invalid(fleet.ReasonRoleNotFound, "role", "no project has a role %q: the roles are %s", fleet.Shorten(name, 60), fleet.JoinNames(names)).
		With("role", fleet.Shorten(name, 60)).With("available", strings.Join(names, ", "))
}
