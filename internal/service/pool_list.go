package service

import (
	"context"

	"fleet/internal/fleet"
)

// PoolView is a pool with its agents and its waiting tasks.
type PoolView struct {
	fleet.Pool
	Agents                        []*fleet.AgentView // sorted by name
	Idle, Busy, Starting, Offline int                // numbers of agents
	Waiting                       int                // number of pending tasks for the pool
}

// ListPools returns a page of the matching pools that the caller may see, sorted by name, their total number, and the cursor of the
// next page.
func (s *Service) ListPools(ctx context.Context, r ListOwnedRequest) (pools []*PoolView, total int, next string, err error) {
	selector, err := fleet.ParseSelector("selector", r.Selector)
	if err != nil {
		return nil, 0, "", err
	}
	return s.pools().page(ctx, r.PageRequest, fleet.MaxPools, func(p *fleet.Pool) bool { return selector.Matches(p.Labels) })
}

// ShowPool returns the pool that the caller names.
func (s *Service) ShowPool(ctx context.Context, ref string) (*PoolView, error) {
	return s.pools().show(ctx, ref)
}

// poolView returns the pool with its agents and the number of tasks that wait for it.
func (s *Service) poolView(ctx context.Context, pool *fleet.Pool) (*PoolView, error) {
	if err := s.snap.Refresh(ctx); err != nil {
		return nil, err
	}
	v := &PoolView{Pool: *pool}
	for _, a := range s.snap.All() {
		if a.Pool != pool.Name || a.Owner != pool.Owner {
			continue
		}
		v.Agents = append(v.Agents, a)
		switch {
		case a.Status() == fleet.StatusIdle:
			v.Idle++
		case a.Status() == fleet.StatusBusy:
			v.Busy++
		case a.State.Moving() && a.Desired == fleet.DesiredRunning:
			v.Starting++
		default:
			v.Offline++
		}
	}
	for _, q := range s.queue.Tasks() {
		if q.Status == fleet.TaskPending && q.Entry.Target.Pool == pool.Name && q.Owner == pool.Owner {
			v.Waiting++
		}
	}
	return v, nil
}
