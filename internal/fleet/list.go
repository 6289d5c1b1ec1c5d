package fleet

import (
	"context"
	"math"
	"strconv"
	"strings"
)

// Page sizes, in items.
const (
	DefaultPageSize = 20
	MaxPageSize     = 100
)

// PageRequest is a part of a list as a caller asks for it; nil means not given.
type PageRequest struct {
	Page, PageSize *int
	Cursor         string // go on from here, in place of Page: what Next returned
	Limit          *int   // at most this many, also of a larger page
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

// Window returns which items of the list are asked for: count of them after the first offset ones. The size of a page is
// defaultSize when it is not given, and all items when that is 0 too.
func (r PageRequest) Window(defaultSize int) (offset, count int, err error) {
	if r.Cursor != "" && r.Page != nil {
		return 0, 0, Invalid(ReasonInvalidArgument, "cursor", "cursor and page are both given: a cursor goes on where an answer ended, a page counts from the beginning")
	}
	page, count, err := r.Resolve(defaultSize)
	if err != nil {
		return 0, 0, err
	}
	if count == 0 {
		if count = math.MaxInt; r.Page != nil {
			count = MaxPageSize
		}
	}
	if page > 1 {
		if offset = math.MaxInt; page-1 <= math.MaxInt/count {
			offset = (page - 1) * count
		}
	}
	if r.Cursor != "" {
		n, err := strconv.ParseUint(r.Cursor, 10, 31)
		if err != nil {
			return 0, 0, Invalid(ReasonInvalidArgument, "cursor", "cursor %q is not one: give the next_cursor of an answer", shorten(r.Cursor, 40))
		}
		offset = int(n) //nolint:gosec // of 31 bits
	}
	if r.Limit != nil {
		if *r.Limit < 1 {
			return 0, 0, Invalid(ReasonInvalidArgument, "limit", "limit is %d: give at least 1", *r.Limit)
		}
		count = min(count, *r.Limit)
	}
	return offset, count, nil
}

// Cut returns the items of the list that are asked for, and the cursor after them; "" when they are the last. A part
// beyond the end is empty.
func Cut[T any](all []T, r PageRequest, defaultSize int) (part []T, next string, err error) {
	offset, count, err := r.Window(defaultSize)
	if err != nil {
		return nil, "", err
	}
	offset = min(offset, len(all))
	part = all[offset : offset+min(count, len(all)-offset)]
	return part, nextCursor(offset, len(part), len(all)), nil
}

// nextCursor is the cursor after n items from the offset on; "" when there are no more in all.
func nextCursor(offset, n, all int) string {
	if n == 0 || offset+n >= all {
		return ""
	}
	return strconv.Itoa(offset + n)
}

// ListAgentsRequest says which agents; the zero value means the whole fleet.
type ListAgentsRequest struct {
	Project, Role string
	Status        Status
	PageRequest
}

// AgentList is a part of the agents that match, by name.
type AgentList struct {
	Agents []*AgentView
	Total  int    // that match
	Next   string // cursor after these; "" when they are the last
}

// ListAgents returns the agents that match. It does not ask the backend: see ObservedAt.
func (s *Service) ListAgents(ctx context.Context, r ListAgentsRequest) (*AgentList, error) {
	p, err := PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.resolveFilter(ctx, &r); err != nil {
		return nil, err
	}
	if err := s.known(ctx); err != nil {
		return nil, err
	}
	if err := s.snap.refresh(ctx); err != nil {
		return nil, err
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
	l := &AgentList{Total: len(match)}
	l.Agents, l.Next, err = Cut(match, r.PageRequest, 0)
	return l, err
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
