package service

import (
	"cmp"
	"context"
	"slices"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// PruneWorkRequest says what PruneWork removes.
type PruneWorkRequest struct {
	Project  string        // empty: of all projects
	Age      time.Duration // only leftovers that are older
	Unproved bool          // also leftovers that may exist nowhere else
	DryRun   bool          // only lists the leftovers
}

// DefaultPruneAge is the PruneWorkRequest.Age for API calls that give none. PruneWork does not apply it.
const DefaultPruneAge = 30 * 24 * time.Hour

// PlaceLeftover is a leftover of an agent and the place that has it.
type PlaceLeftover struct {
	fleet.Leftover
	Place string
}

// PruneWork removes the leftovers of agents from the places of this server, and returns them, the largest first. With DryRun it only
// returns them. Package admission lets only admins call it.
func (s *Service) PruneWork(ctx context.Context, r PruneWorkRequest) ([]PlaceLeftover, error) {
	if r.Age < 0 {
		return nil, fleet.InvalidField("older_than_seconds", "older_than_seconds is %d: give 0 or more", int64(r.Age.Seconds()))
	}
	places := s.places.All
	q := fleet.PruneQuery{Before: s.now().Add(-r.Age), IncludeUnproved: r.Unproved, DryRun: r.DryRun}
	if r.Project != "" {
		project, place, err := s.places.FindFleetProject(ctx, r.Project)
		if err != nil {
			return nil, err
		}
		q.Project, places = project.Name, []*state.ManagedPlace{place}
	}
	q.FindDeleted = func(ctx context.Context, uids []string) ([]fleet.DeletedAgent, error) {
		return view(ctx, s.store, func(tx fleet.ReadTx) (deleted []fleet.DeletedAgent, err error) {
			agents, err := tx.AgentViews(fleet.AgentViewFilter{UIDs: uids})
			for _, v := range agents {
				if !v.DeletedAt.IsZero() && v.DeletedAt.Before(q.Before) {
					deleted = append(deleted, fleet.DeletedAgent{UID: v.UID, Name: v.Name})
				}
			}
			return deleted, err
		})
	}
	err := s.store.View(ctx, func(tx fleet.ReadTx) error {
		q.EndedTaskIDs, q.SettledCommits = nil, nil
		all, err := tx.Landings(fleet.LandingFilter{States: []fleet.LandingState{fleet.LandingLanded, fleet.LandingAbandoned}})
		for _, l := range all {
			if l.UpdatedAt.Before(q.Before) {
				q.EndedTaskIDs, q.SettledCommits = append(q.EndedTaskIDs, l.TaskID), append(q.SettledCommits, l.Head)
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var found []PlaceLeftover
	for _, place := range places {
		pruner, ok := place.Place.(fleet.Pruner)
		if !ok {
			continue
		}
		all, err := pruner.Prune(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, l := range all {
			found = append(found, PlaceLeftover{l, place.Name})
		}
	}
	slices.SortStableFunc(found, func(a, b PlaceLeftover) int { return cmp.Compare(b.Size, a.Size) })
	return found, nil
}
