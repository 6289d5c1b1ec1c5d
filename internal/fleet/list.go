package fleet

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Page sizes, in items.
const (
	DefaultPageSize = 20
	MaxPageSize     = 100
)

// PageRequest is the part of a list that a caller requests; nil means not given.
type PageRequest struct {
	Page, PageSize *int
	Cursor         string // continue from here, instead of Page: the previous Next
	Limit          *int   // at most this many, even if the page is larger
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

// Window returns which items are requested: count items after the first offset ones. A page size that is not given is
// defaultSize, or all items if that is 0.
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

// Cut returns the requested items of the list, and the cursor after them; "" at the end. A part beyond the end is
// empty.
func Cut[T any](all []T, r PageRequest, defaultSize int) (part []T, next string, err error) {
	offset, count, err := r.Window(defaultSize)
	if err != nil {
		return nil, "", err
	}
	offset = min(offset, len(all))
	part = all[offset : offset+min(count, len(all)-offset)]
	return part, nextCursor(offset, len(part), len(all)), nil
}

// nextCursor returns the cursor after n items from the offset; "" at the end of the list.
func nextCursor(offset, n, all int) string {
	if n == 0 || offset+n >= all {
		return ""
	}
	return strconv.Itoa(offset + n)
}

// ListAgentsRequest selects agents; the zero value selects the whole fleet.
type ListAgentsRequest struct {
	Project, Role string
	Status        Status
	PageRequest
}

// AgentList is a part of the matching agents, and the state of the places where they live.
type AgentList struct {
	*AgentRows
	Places []PlaceState
}

// ListAgents returns the matching agents, and the state of the places where they live. It calls no place. It fails only
// if no place's agents are known yet.
func (s *Service) ListAgents(ctx context.Context, r ListAgentsRequest) (*AgentList, error) {
	p, err := PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	place, err := s.resolveFilter(ctx, &r)
	if err != nil {
		return nil, err
	}
	if err := s.places.anyKnown(ctx); err != nil {
		return nil, err
	}
	if err := s.snap.refresh(ctx); err != nil {
		return nil, err
	}
	rows, err := s.snap.listing().list(p, r, place)
	if err != nil {
		return nil, err
	}
	return &AgentList{AgentRows: rows, Places: s.Places(p)}, nil
}

// resolveFilter replaces the filter's project and role by those of the catalogs; unknown ones are errors. It returns
// the place that the project's name contains, or "" for all places.
func (s *Service) resolveFilter(ctx context.Context, r *ListAgentsRequest) (place string, err error) {
	switch r.Status {
	case "", StatusBusy, StatusIdle, StatusOffline:
	default:
		return "", Invalid(ReasonInvalidArgument, "status", "status %q is not busy, idle or offline", r.Status)
	}
	var projects []Project
	switch {
	case r.Project != "":
		projects, place, err = s.places.matchProjects(ctx, r.Project, s.places.fleet)
		if err != nil {
			return "", asInvalid(err, "project")
		}
		r.Project = projects[0].Name
	case r.Role != "":
		all, errs := s.places.projects(ctx, s.places.fleet)
		if len(errs) == len(s.places.fleet) {
			return "", errs[s.places.fleet[0].name]
		}
		projects = all
	}
	if r.Role == "" {
		return place, nil
	}
	return place, s.knownRole(ctx, r.Role, projects)
}

// knownRole returns ROLE_NOT_FOUND unless a project has the role. A place that does not answer may have it.
func (s *Service) knownRole(ctx context.Context, name string, projects []Project) error {
	var names []string
	for _, p := range projects {
		roles, err := s.places.lookup(p.Place).catalog.Roles(ctx, p.Name)
		if ReasonOf(err) == ReasonBackendUnavailable {
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
		_, err := s.places.lookup(projects[0].Place).catalog.role(ctx, projects[0].Name, name)
		return asInvalid(err, "role")
	}
	return Invalid(ReasonRoleNotFound, "role", "no project has a role %q: the roles are %s", shorten(name, 60), list(names)).
		With("role", shorten(name, 60)).With("available", strings.Join(names, ", "))
}

// ListProjects returns the projects of all places by the names that create takes, and the state of the places. It fails
// only if no place lists its projects.
func (s *Service) ListProjects(ctx context.Context) ([]Project, []PlaceState, error) {
	p, err := PrincipalFrom(ctx)
	if err != nil {
		return nil, nil, err
	}
	all, errs := s.places.projects(ctx, s.places.fleet)
	if len(errs) == len(s.places.fleet) {
		return nil, nil, errs[s.places.fleet[0].name]
	}
	for i, ref := range refs(all) {
		all[i].Name = ref
	}
	if err := s.snap.refresh(ctx); err != nil {
		return nil, nil, err
	}
	states := s.Places(p)
	for i := range states {
		if err := errs[states[i].Name]; err != nil {
			states[i].Problem = PublicMessage(err)
		}
	}
	return all, states, nil
}

// ListRoles returns the roles of a project.
func (s *Service) ListRoles(ctx context.Context, project string) ([]Role, error) {
	if _, err := PrincipalFrom(ctx); err != nil {
		return nil, err
	}
	if project == "" {
		return nil, Invalid(ReasonInvalidArgument, "project", "project is required").Next("{list_agent_projects} shows the projects")
	}
	p, place, err := s.places.findProject(ctx, project, s.places.fleet...)
	if err != nil {
		return nil, err
	}
	return place.catalog.Roles(ctx, p.Name)
}
