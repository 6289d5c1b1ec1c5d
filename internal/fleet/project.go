package fleet

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"
)

// Project is what agents work on.
type Project struct {
	Name         string // what create takes; compared without case
	Place        string // where it is; set by the core
	DisplayName  string
	Description  string
	TemplateID   string
	TemplateName string
	// SpecIsTask says that an agent of the project begins to work on its spec by itself, as soon as it is there: the spec
	// is its first task.
	SpecIsTask bool
	// Checks are of all tasks in the project.
	Checks Checks
}

// Matches says whether a caller who writes s means the project. Its name, template name and display name are all
// good, in any case.
func (p Project) Matches(s string) bool {
	return strings.EqualFold(s, p.Name) || strings.EqualFold(s, p.TemplateName) && s != "" || strings.EqualFold(s, p.DisplayName) && s != ""
}

// Role is how an agent behaves in a project.
type Role struct {
	Name        string // what create takes; compared without case
	DisplayName string
	Description string
	Default     bool // used when create names none
	Checks      Checks
}

// projectsWait is how long a place may take to list its projects where those of other places are asked for too.
const projectsWait = 5 * time.Second

// projects returns the projects of the places, by name, and the errors of the places that do not tell theirs, by place. A
// place that does not answer keeps nobody waiting for those that do.
func (ps *Places) projects(ctx context.Context, places []*managedPlace) (all []Project, errs map[string]error) {
	type answer struct {
		projects []Project
		err      error
	}
	answers := make([]answer, len(places))
	var asking sync.WaitGroup
	for i, p := range places {
		asking.Go(func() {
			a := &answers[i]
			if len(places) == 1 {
				a.projects, a.err = p.catalog.Projects(ctx)
				return
			}
			a.projects, a.err = p.projectsWithin(ctx, min(projectsWait, ps.cfg.CallTimeout))
		})
	}
	asking.Wait()
	errs = map[string]error{}
	for i, p := range places {
		if err := answers[i].err; err != nil {
			errs[p.name] = err
		}
		for _, project := range answers[i].projects {
			project.Place = p.name
			all = append(all, project)
		}
	}
	slices.SortStableFunc(all, func(a, b Project) int { return cmp.Compare(a.Name, b.Name) })
	return all, errs
}

// projectsWithin returns the projects of the place. A place that does not answer within the limit, or did not when it was
// last asked, has those that it had before.
func (p *managedPlace) projectsWithin(ctx context.Context, limit time.Duration) ([]Project, error) {
	down := p.available()
	if down == nil {
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		projects, err := p.catalog.Projects(limited)
		if err == nil || ctx.Err() != nil || limited.Err() == nil {
			return projects, err
		}
		down = Errorf(ReasonBackendUnavailable, "it did not list them within %s", limit).WithCause(err)
		p.reached(Errorf(ReasonBackendUnavailable, "%s did not list its projects within %s", p.name, limit).WithCause(err))
	}
	if old := p.catalog.remembered(); old != nil {
		return old, nil
	}
	err := Errorf(ReasonBackendUnavailable, "the projects of %s are not known yet: %s", p.name, PublicMessage(down)).WithCause(down)
	if e, ok := errors.AsType[*Error](down); ok {
		err.RetryAfter = e.RetryAfter
	}
	return nil, err
}

// refs returns how callers name the projects: by name, and as PLACE/NAME where several places have the name.
func refs(projects []Project) []string {
	count := map[string]int{}
	for _, p := range projects {
		count[strings.ToLower(p.Name)]++
	}
	names := make([]string, len(projects))
	for i, p := range projects {
		names[i] = p.Name
		if count[strings.ToLower(p.Name)] > 1 {
			names[i] = p.Place + "/" + p.Name
		}
	}
	return names
}

// matchProjects returns the projects of the places that a caller means by ref: a name, or PLACE/NAME. There is at least one,
// of several places if they have the name and ref does not say which. place is the one that ref says, or "".
//
// The error of a place that does not tell its projects counts only if no other place has the project.
func (ps *Places) matchProjects(ctx context.Context, ref string, places []*managedPlace) (match []Project, place string, err error) {
	name := ref
	if before, after, found := strings.Cut(ref, "/"); found {
		if i := slices.IndexFunc(places, func(p *managedPlace) bool { return strings.EqualFold(p.name, before) }); i >= 0 {
			places, name, place = places[i:i+1], after, places[i].name
		}
	}
	all, errs := ps.projects(ctx, places)
	for _, means := range []func(Project) bool{
		func(p Project) bool { return strings.EqualFold(p.Name, name) },
		func(p Project) bool { return p.Matches(name) },
	} {
		for _, p := range all {
			if means(p) {
				match = append(match, p)
			}
		}
		if len(match) > 0 {
			return match, place, nil
		}
	}
	for _, p := range places {
		if err := errs[p.name]; err != nil {
			return nil, place, err
		}
	}
	names := refs(all)
	return nil, place, Errorf(ReasonProjectNotFound, "project %q not found: the projects are %s", shorten(ref, 60), list(names)).Next("{list_agent_projects} describes them").
		With("project", shorten(ref, 60)).With("available", strings.Join(names, ", "))
}

// findProject returns the one project of the places that a caller means by ref, and its place. INVALID_ARGUMENT if several
// places have it and ref does not say which.
func (ps *Places) findProject(ctx context.Context, ref string, places ...*managedPlace) (Project, *managedPlace, error) {
	match, _, err := ps.matchProjects(ctx, ref, places)
	if err != nil {
		return Project{}, nil, err
	}
	for _, p := range match {
		if p.Place != match[0].Place {
			names := refs(match)
			return Project{}, nil, Invalid(ReasonInvalidArgument, "project", "several places have a project %q: say which, one of %s", shorten(ref, 60), list(names)).
				With("available", strings.Join(names, ", "))
		}
	}
	return match[0], ps.byName[match[0].Place], nil
}
