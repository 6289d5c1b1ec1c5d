package service

import (
	"context"

	"fleet/internal/fleet"
)

// Overlaps is the open work of a project, and the pairs of it that change the same lines or are in conflict.
type Overlaps struct {
	Project string
	Into    fleet.Branch
	Work    []*LandingView // without reviews, newest first
	Pairs   []fleet.WorkOverlap
	Missing []*LandingView // work that the repository does not have, or that is in a workspace that does not run
}

// MaxCompared is the maximum number of tasks whose work ShowOverlaps compares. It compares the newest ones.
const MaxCompared = 100

// ShowOverlaps compares the project's work that the caller may see, as if it were merged into the branch. It leaves out work
// that has landed or been abandoned. If into is empty, the branch is the one at which the project's work begins.
func (s *Service) ShowOverlaps(ctx context.Context, project, into string) (*Overlaps, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	if project == "" {
		return nil, fleet.InvalidField("project", "project is required").Next("{list_agent_projects} shows the projects")
	}
	found, place, err := s.places.FindFleetProject(ctx, project)
	if err != nil {
		return nil, err
	}
	repo, err := s.repository(place.Name, found.Name)
	if err != nil {
		return nil, err
	}
	b, err := repo.Branch(ctx, into)
	if err != nil {
		return nil, err
	}
	f, _, err := s.taskFilter(ctx, p, ListTasksRequest{Project: project})
	if err != nil {
		return nil, err
	}
	f.LandingStates, f.Ended = openStates, true
	o := &Overlaps{Project: found.Name, Into: b}
	open, err := view(ctx, s.store, func(tx fleet.ReadTx) ([]*LandingView, error) {
		found, err := tx.FindTasks(f, fleet.TaskWindow{Limit: MaxCompared, Count: MaxCompared})
		if err != nil {
			return nil, err
		}
		return workOf(tx, found.Tasks)
	})
	if err != nil {
		return nil, err
	}
	return o, s.compareWork(ctx, repo, o, open)
}

// compareWork compares the open work and sets Work, Pairs and Missing of o.
func (s *Service) compareWork(ctx context.Context, repo fleet.Repository, o *Overlaps, open []*LandingView) (err error) {
	var all []fleet.Contribution
	for _, v := range open {
		switch err := s.collectWork(ctx, repo, v.Task); {
		case fleet.ReasonOf(err) == fleet.ReasonChangesNotFound, fleet.ReasonOf(err) == fleet.ReasonAgentOffline:
			o.Missing = append(o.Missing, v)
		case err != nil:
			return err
		default:
			o.Work, all = append(o.Work, v), append(all, contribution(v.Landing))
		}
	}
	o.Pairs, err = repo.Overlaps(ctx, o.Into.Commit, all)
	return err
}
