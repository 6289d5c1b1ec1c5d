package fleet

import (
	"context"
	"strings"
)

// Page sizes, in items.
const (
	DefaultPageSize = 20
	MaxPageSize     = 100
)

// PageRequest is a page as a caller asks for it; nil means not given.
type PageRequest struct {
	Page, PageSize *int
}

// Resolve checks the page and clamps its size to 1 to MaxPageSize.
func (r PageRequest) Resolve(defaultSize int) (page, size int, err error) {
	page, size = 1, defaultSize
	if r.Page != nil {
		page = *r.Page
	}
	if r.PageSize != nil {
		size = min(max(*r.PageSize, 1), MaxPageSize)
	}
	if page < 1 {
		return 0, 0, Invalid(ReasonInvalidPage, "page", "page is %d: pages count from 1", page)
	}
	return page, size, nil
}

// ListAgentsRequest says which agents; the zero value means the whole fleet.
type ListAgentsRequest struct {
	Project, Role string
	Status        Status
	PageRequest
}

// ListAgents returns the agents that match, by name, and how many there are on all pages. It does not ask the
// backend: see ObservedAt.
func (s *Service) ListAgents(ctx context.Context, r ListAgentsRequest) (agents []*AgentView, total int, err error) {
	p, err := PrincipalFrom(ctx)
	if err != nil {
		return nil, 0, err
	}
	if err := s.resolveFilter(ctx, &r); err != nil {
		return nil, 0, err
	}
	page, size, err := r.Resolve(MaxPageSize)
	if err != nil {
		return nil, 0, err
	}
	if err := s.known(ctx); err != nil {
		return nil, 0, err
	}
	if err := s.snap.refresh(ctx); err != nil {
		return nil, 0, err
	}
	match := make([]*AgentView, 0, 16)
	for _, v := range s.snap.all() {
		if v.Toolset == ToolsetFleet && p.MaySee(v.Owner) &&
			(r.Project == "" || v.Project == r.Project) &&
			(r.Role == "" || strings.EqualFold(v.Role, r.Role)) &&
			(r.Status == "" || v.Status() == r.Status) {
			match = append(match, v)
		}
	}
	if r.Page == nil && r.PageSize == nil {
		return match, len(match), nil
	}
	return cut(match, page, size), len(match), nil
}

// resolveFilter makes the filter's project and role those of the catalog; unknown ones are errors.
func (s *Service) resolveFilter(ctx context.Context, r *ListAgentsRequest) error {
	switch r.Status {
	case "", StatusBusy, StatusIdle, StatusOffline:
	default:
		return Invalid(ReasonInvalidArgument, "status", "status %q is none of busy, idle, offline", r.Status)
	}
	if r.Project != "" {
		project, err := s.catalog.project(ctx, r.Project)
		if err != nil {
			return asInvalid(err, "project")
		}
		r.Project = project.Name
		if r.Role != "" {
			_, err = s.catalog.role(ctx, project.Name, r.Role)
		}
		return asInvalid(err, "role")
	}
	if r.Role == "" {
		return nil
	}
	projects, err := s.catalog.Projects(ctx)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	var names []string
	for _, p := range projects {
		roles, err := s.catalog.Roles(ctx, p.Name)
		if err != nil {
			return err
		}
		for _, role := range roles {
			if strings.EqualFold(role.Name, r.Role) {
				return nil
			}
			if !known[role.Name] {
				known[role.Name] = true
				names = append(names, role.Name)
			}
		}
	}
	return Invalid(ReasonRoleNotFound, "role", "no project has a role %q: the roles are %s", shorten(r.Role, 60), list(names)).
		With("role", shorten(r.Role, 60)).With("available", strings.Join(names, ", "))
}

// cut returns one page of items; a page beyond the end is empty.
func cut[T any](items []T, page, size int) []T {
	if page-1 > len(items)/size {
		return nil
	}
	from := min((page-1)*size, len(items))
	return items[from:min(from+size, len(items))]
}

// ListProjects returns the projects, by name.
func (s *Service) ListProjects(ctx context.Context) ([]Project, error) {
	if _, err := PrincipalFrom(ctx); err != nil {
		return nil, err
	}
	return s.catalog.Projects(ctx)
}

// ListRoles returns the roles of a project.
func (s *Service) ListRoles(ctx context.Context, project string) ([]Role, error) {
	if _, err := PrincipalFrom(ctx); err != nil {
		return nil, err
	}
	if project == "" {
		return nil, Invalid(ReasonInvalidArgument, "project", "project is required: name a project, see list_agent_projects")
	}
	p, err := s.catalog.project(ctx, project)
	if err != nil {
		return nil, err
	}
	return s.catalog.Roles(ctx, p.Name)
}
