package rpc

import (
	"context"
	"fmt"
	"time"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/service"
)

// PruneWork removes the leftovers of agents. With dry_run, it only lists them.
func (f *Fleet) PruneWork(ctx context.Context, r *fleetv1.PruneWorkRequest) (*fleetv1.PruneWorkResponse, error) {
	q := service.PruneWorkRequest{Project: r.GetProject(), Age: service.DefaultPruneAge, Unproved: r.GetUnproved(), DryRun: r.GetDryRun()}
	if r.OlderThanSeconds != nil {
		q.Age = time.Duration(r.GetOlderThanSeconds()) * time.Second
	}
	all, err := f.svc.PruneWork(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &fleetv1.PruneWorkResponse{Leftovers: listOf(all, leftoverOf)}
	removable, unproved := 0, 0
	for _, l := range all {
		switch {
		case l.Removed:
			out.RemovedCount++
		case l.Proof == fleet.LeftoverUnproved:
			unproved++
		default:
			removable++
		}
	}
	switch {
	case q.DryRun && q.Unproved:
		out.Message = fmt.Sprintf("%d of %d would be removed", len(all), len(all))
	case q.DryRun:
		out.Message = fmt.Sprintf("%d of %d would be removed, the others may exist nowhere else", removable, len(all))
	case unproved > 0 && !q.Unproved:
		out.Message = fmt.Sprintf("%d of %d were removed, %d may exist nowhere else", out.GetRemovedCount(), len(all), unproved)
	default:
		out.Message = fmt.Sprintf("%d of %d were removed", out.GetRemovedCount(), len(all))
	}
	return out, nil
}

func leftoverOf(l service.PlaceLeftover) *fleetv1.Leftover {
	return &fleetv1.Leftover{
		Kind: fleetv1.Leftover_Kind(fleetv1.Leftover_Kind_value[string(l.Kind)]), Proof: fleetv1.Leftover_Proof(fleetv1.Leftover_Proof_value[string(l.Proof)]),
		Project: textOf(l.Project), Place: l.Place, AgentName: textOf(l.AgentName), AgentId: textOf(l.AgentUID), Location: textOf(l.Location), Count: int32Of(l.Count),
		Size: float64(l.Size), NewestAt: timeOf(l.Newest), Reason: textOf(l.Reason), Removed: l.Removed, Problem: optional(textOf(l.Problem)),
		Names: listOf(l.Names, textOf),
	}
}
