package fake

import (
	"context"
	"slices"

	"fleet/internal/fleet"
)

// Prune lists the kept workspaces that match the query. It removes them if the query includes unproved leftovers and is not a dry
// run.
func (p *Place) Prune(ctx context.Context, q fleet.PruneQuery) (all []fleet.Leftover, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keptWorkspaces = slices.DeleteFunc(p.keptWorkspaces, func(w *workspace) bool {
		if q.Project != "" && w.Project != q.Project || !w.keptAt.Before(q.Before) {
			return false
		}
		l := fleet.Leftover{
			Kind: fleet.LeftoverHome, Project: w.Project, AgentUID: w.AgentUID, AgentName: w.Name, Location: w.Location, Count: 1, Size: 4096, Newest: w.keptAt,
			Proof: fleet.LeftoverUnproved, Reason: w.keepReason, Removed: q.IncludeUnproved && !q.DryRun,
		}
		all = append(all, l)
		return l.Removed
	})
	return all, ctx.Err()
}
