package service

import (
	"context"
	"maps"
	"slices"

	"fleet/internal/fleet"
)

// PrincipalUse is a principal with its holdings and its limits.
type PrincipalUse struct {
	Name string
	fleet.Holdings
	Limits []LimitUse
}

// MaxPrincipals is the maximum number of principals in one response.
const MaxPrincipals = 1000

// ListPrincipals returns the known principals whose names come after the cursor, sorted by name, and the cursor of the next page; ""
// on the last page. The known principals are the caller, the owners of existing agents, the holders of valid tokens, and the principals
// that have limits of their own. A nil limit means 100. Package admission lets only admins call it.
func (s *Service) ListPrincipals(ctx context.Context, cursor string, limit *int) (page []PrincipalUse, next string, err error) {
	most, err := limitOr(limit, 100, MaxPrincipals)
	if err != nil {
		return nil, "", err
	}
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, "", err
	}
	if err := s.snap.Refresh(ctx); err != nil {
		return nil, "", err
	}
	known := map[string]bool{p.Name: true}
	for _, v := range s.snap.All() {
		known[v.Owner] = true
	}
	for name := range s.Limits().Principals {
		known[name] = true
	}
	err = s.store.View(ctx, func(tx fleet.ReadTx) error {
		tokens, err := tx.Tokens(fleet.TokenFilter{All: true})
		if err != nil {
			return err
		}
		for _, t := range tokens {
			if t.Valid(s.now()) {
				known[t.Name] = true
			}
		}
		maps.DeleteFunc(known, func(name string, _ bool) bool { return name <= cursor })
		names := slices.Sorted(maps.Keys(known))
		if len(names) > most {
			names = names[:most]
			next = names[most-1]
		}
		page = make([]PrincipalUse, len(names))
		for i, name := range names {
			if page[i], err = principalUse(s.Limits(), tx, name); err != nil {
				return err
			}
		}
		return nil
	})
	return page, next, err
}

// principalUse returns the principal's holdings and limits.
func principalUse(all fleet.Limits, tx fleet.ReadTx, name string) (use PrincipalUse, err error) {
	use.Name = name
	if use.Holdings, err = tx.Holdings(name, fleet.Limits{}, fleet.HoldingsScope{}); err != nil {
		return use, err
	}
	groups, err := limitGroups(all, tx, name)
	for _, limit := range all.ListFor(name, groups) {
		use.Limits = append(use.Limits, useOf(limit, use.AllAgents(), use.RunningTasks, use.StoredBytes))
	}
	return use, err
}
