package state

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"fleet/internal/fleet"
)

// projectsWait limits how long a place may take to list its projects if several places are asked.
const projectsWait = 5 * time.Second

// Projects returns the projects of the places, sorted by name, and the errors of the places that do not list theirs, by
// place. If there are several places, it waits for each of them at most projectsWait, or
// Config.CallTimeout if that is shorter.
//
// If ctx has a caller, Projects leaves out the projects that the caller may not use.
func (ps *Places) Projects(ctx context.Context, places []*ManagedPlace) (all []fleet.Project, errs map[string]error) {
	type answer struct {
		projects []fleet.Project
		err      error
	}
	answers := make([]answer, len(places))
	var wg sync.WaitGroup
	for i, p := range places {
		wg.Go(func() {
			a := &answers[i]
			if len(places) == 1 {
				a.projects, a.err = p.Catalog.Projects(ctx)
				return
			}
			a.projects, a.err = p.projectsWithin(ctx, min(projectsWait, ps.cfg.CallTimeout))
		})
	}
	wg.Wait()
	errs = map[string]error{}
	caller, callerErr := fleet.PrincipalFrom(ctx)
	for i, p := range places {
		if err := answers[i].err; err != nil {
			errs[p.Name] = err
		}
		for _, project := range answers[i].projects {
			if project.Place = p.Name; callerErr != nil || caller.MayUseProject(project) {
				all = append(all, project)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b fleet.Project) int { return cmp.Compare(a.Name, b.Name) })
	return all, errs
}

// projectsWithin returns the projects of the place. If the place does not answer within the limit, or did not answer the
// last call, it returns the projects that the place listed last, or BACKEND_UNAVAILABLE if it has listed none.
func (p *ManagedPlace) projectsWithin(ctx context.Context, limit time.Duration) ([]fleet.Project, error) {
	downErr := p.Available()
	if downErr == nil {
		timeoutCtx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		projects, err := p.Catalog.Projects(timeoutCtx)
		if err == nil || ctx.Err() != nil || timeoutCtx.Err() == nil {
			return projects, err
		}
		downErr = fleet.Errorf(fleet.ReasonBackendUnavailable, "it did not list them within %s", limit).WithCause(err)
		p.recordAnswer(fleet.Errorf(fleet.ReasonBackendUnavailable, "%s did not list its projects within %s", p.Name, limit).WithCause(err))
	}
	if old := p.Catalog.lastProjects(); old != nil {
		return old, nil
	}
	err := fleet.Errorf(fleet.ReasonBackendUnavailable, "the projects of %s are not known yet: %s", p.Name, fleet.PublicMessage(downErr)).WithCause(downErr)
	if e, ok := errors.AsType[*fleet.Error](downErr); ok {
		err.RetryAfter = e.RetryAfter
	}
	return nil, err
}

// ProjectRefs returns references to the projects: NAME, or PLACE/NAME if several places have a project with the name.
func ProjectRefs(projects []fleet.Project) []string {
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

// MatchProjects returns the projects that match ref: NAME, or PLACE/NAME. If it returns no error, there is at least one match, and
// several if ref does not name the place and several places have the project. place is the name of the place in ref, or "".
//
// The error of a place that does not list its projects counts only if no other place has the project.
func (ps *Places) MatchProjects(ctx context.Context, ref string, places []*ManagedPlace) (match []fleet.Project, place string, err error) {
	name := ref
	if before, after, found := strings.Cut(ref, "/"); found {
		if p := placeNamed(places, before); p != nil {
			places, name, place = []*ManagedPlace{p}, after, p.Name
		}
	}
	all, errs := ps.Projects(ctx, places)
	for _, matches := range []func(fleet.Project) bool{
		func(p fleet.Project) bool { return strings.EqualFold(p.Name, name) },
		func(p fleet.Project) bool { return p.Matches(name) },
	} {
		for _, p := range all {
			if matches(p) {
				match = append(match, p)
			}
		}
		if len(match) > 0 {
			return match, place, nil
		}
	}
	for _, p := range places {
		if err := errs[p.Name]; err != nil {
			return nil, place, err
		}
	}
	names := ProjectRefs(all)
	return nil, place, fleet.Errorf(fleet.ReasonProjectNotFound, "project %q not found: the projects are %s", fleet.Shorten(ref, 60), fleet.JoinNames(names)).Next("{list_agent_projects} describes them").
		With("project", fleet.Shorten(ref, 60)).With("available", strings.Join(names, ", "))
}

// placeNamed returns the place with the name among the places, ignoring case; nil if there is none.
func placeNamed(places []*ManagedPlace, name string) *ManagedPlace {
	if i := slices.IndexFunc(places, func(p *ManagedPlace) bool { return strings.EqualFold(p.Name, name) }); i >= 0 {
		return places[i]
	}
	return nil
}

// FindProject returns the project that matches ref, and its place. The error is INVALID_ARGUMENT if several places have the
// project and ref does not name the place.
func (ps *Places) FindProject(ctx context.Context, ref string, places ...*ManagedPlace) (fleet.Project, *ManagedPlace, error) {
	match, _, err := ps.MatchProjects(ctx, ref, places)
	if err != nil {
		return fleet.Project{}, nil, err
	}
	for _, p := range match {
		if p.Place != match[0].Place {
			names := ProjectRefs(match)
			return fleet.Project{}, nil, fleet.InvalidField("project", "several places have a project %q: say which, one of %s", fleet.Shorten(ref, 60), fleet.JoinNames(names)).
				With("available", strings.Join(names, ", "))
		}
	}
	return match[0], ps.Named(match[0].Place), nil
}

// FindFleetProject works like FindProject, for the places that MatchFleetProjects searches.
func (ps *Places) FindFleetProject(ctx context.Context, ref string) (fleet.Project, *ManagedPlace, error) {
	places, err := ps.fleetPlaces(ctx, ref)
	if err != nil {
		return fleet.Project{}, nil, err
	}
	return ps.FindProject(ctx, ref, places...)
}

// MatchFleetProjects works like MatchProjects, for the fleet's places on this server. If ref names a place of another server, as
// in local@SERVER/NAME, it searches that place too.
func (ps *Places) MatchFleetProjects(ctx context.Context, ref string) (match []fleet.Project, place string, err error) {
	places, err := ps.fleetPlaces(ctx, ref)
	if err != nil {
		return nil, "", err
	}
	return ps.MatchProjects(ctx, ref, places)
}

// fleetPlaces returns the fleet's places on this server, and the place of another server if ref names one.
func (ps *Places) fleetPlaces(ctx context.Context, ref string) ([]*ManagedPlace, error) {
	name, _, found := strings.Cut(ref, "/")
	kind, server := fleet.SplitPlace(strings.ToLower(name))
	if !found || kind == "" || server == "" || placeNamed(ps.Fleet, name) != nil {
		return ps.Fleet, nil
	}
	if ownPlace := ps.placeOfSameKind(kind); !slices.Contains(ps.Fleet, ownPlace) || ownPlace.Name == kind { // a place that every server reaches has no server in its name
		return ps.Fleet, nil
	}
	replicas, err := ps.store.Replicas(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range replicas {
		if !strings.EqualFold(r.Name, server) {
			continue
		}
		if p := ps.placeOnOtherServer(fleet.PlaceOn(kind, r.Name)); p != nil {
			return append(slices.Clone(ps.Fleet), p), nil
		}
	}
	return ps.Fleet, nil
}
