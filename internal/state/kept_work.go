package state

import (
	"context"
	"log/slog"
	"slices"

	"fleet/internal/fleet"
)

// KeptWork returns the kept workspaces of deleted agents in all places, including places of other servers, oldest first. It leaves out
// places that do not answer.
func (ps *Places) KeptWork(ctx context.Context) (all []fleet.KeptWork, err error) {
	servers, err := ps.store.Replicas(ctx)
	if err != nil {
		return nil, err
	}
	places := slices.Clone(ps.All)
	for _, p := range ps.All {
		for _, s := range servers {
			kind, _ := fleet.SplitPlace(p.Name)
			if other := ps.placeOnOtherServer(fleet.PlaceOn(kind, s.Name)); other != nil && p.Name != kind { // every server reaches a place without a server in its name
				places = append(places, other)
			}
		}
	}
	for _, p := range places {
		kept, err := p.keptWork(ctx, "")
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			ps.cfg.Logger.WarnContext(ctx, "kept work of a place not listed", slog.String("place", p.Name), slog.Any("error", err))
			continue
		}
		all = append(all, kept...)
	}
	slices.SortStableFunc(all, func(a, b fleet.KeptWork) int { return a.KeptAt.Compare(b.KeptAt) })
	return all, nil
}

// KeptWorkOf returns the kept workspace of the deleted agent; nil if none is kept.
func (p *ManagedPlace) KeptWorkOf(ctx context.Context, uid string) (*fleet.KeptWork, error) {
	all, err := p.keptWork(ctx, uid)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

// keptWork returns the kept workspace of the deleted agent with the uid, or of all deleted agents if uid is empty.
func (p *ManagedPlace) keptWork(ctx context.Context, uid string) ([]fleet.KeptWork, error) {
	k, ok := p.Place.(fleet.Keeper)
	if !ok {
		return nil, nil
	}
	all, err := k.KeptWork(ctx, uid)
	for i := range all {
		all[i].Place = p.Name
	}
	return all, err
}
