package service

import (
	"context"
	"time"

	"fleet/internal/fleet"
)

// CreatePoolRequest describes a new pool. CreatePool sets the owner, place, project and role of Pool.
type CreatePoolRequest struct {
	fleet.Pool
	Project, Role string // as the caller names them
	RequestID     string `json:"-"`
}

// CreatePool adds a pool of agents of the caller.
func (s *Service) CreatePool(ctx context.Context, r CreatePoolRequest) (*PoolView, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	pool := r.Pool
	pool.SetDefaults()
	if err := pool.Validate(); err != nil {
		return nil, err
	}
	if err := checkText(fleet.ReasonSpecRequired, "spec", "the spec of the pool's agents", pool.Spec); err != nil {
		return nil, err
	}
	c := Call{Method: "CreatePool", RequestID: r.RequestID, Body: r}
	draft, err := s.draftWaitingAgent(ctx, CreateAgentRequest{Project: r.Project, Role: r.Role, Parameters: pool.Parameters})
	c.Refusal = err
	if err == nil {
		pool.ProjectRole = fleet.ProjectRole{Place: draft.place.Name, Project: draft.project.Name, Role: draft.role.Name}
		c.Refusal = checkReach(p, pool.Place, pool.Project)
	}
	pool.Owner, pool.Authorization = p.Name, fleet.Authorization{Kind: p.Kind, Scope: p.Scope}
	pool.CreatedAt = s.now()
	return s.pools().change(ctx, c, pool.Key(), func(tx fleet.Tx, old *fleet.Pool) (*fleet.Pool, string, error) {
		all, err := fleet.ReadResources[fleet.Pool](tx, fleet.ResourceFilter{Kind: fleet.PoolKind})
		switch {
		case err != nil:
			return nil, "", err
		case old != nil:
			return nil, "", fleet.Errorf(fleet.ReasonPoolExists, "a pool %q already exists", pool.Name).With("pool", pool.Name).With("field", "name").Next("choose another name")
		case len(all) >= fleet.MaxPools:
			return nil, "", fleet.LimitReached("pools", "the fleet has", int64(len(all)), fleet.MaxPools, "pools", "{delete_pool} deletes one")
		}
		return &pool, "was created by " + p.Name, nil
	})
}

// UpdatePoolRequest says what changes about a pool. A nil field changes nothing.
type UpdatePoolRequest struct {
	Name                            string
	MinIdle, MaxAgents, MaxCreating *int
	MaxIdle                         *time.Duration
	Reuse                           *fleet.ReusePolicy
	Groups                          *[]string
	RequestID                       string `json:"-"`
}

// UpdatePool changes a pool. If the pool has stopped creating agents after too many failures, it tries again.
func (s *Service) UpdatePool(ctx context.Context, r UpdatePoolRequest) (*PoolView, error) {
	checked := fleet.Pool{Name: "any"} // has only the new values, so that an error is about one of them
	checked.SetDefaults()
	r.apply(&checked)
	if err := checked.Validate(); err != nil {
		return nil, err
	}
	c := Call{Method: "UpdatePool", RequestID: r.RequestID, Body: r}
	return s.pools().changeNamed(ctx, c, r.Name, func(_ fleet.Tx, p fleet.Principal, pool *fleet.Pool) (string, error) {
		if err := checkPoolChange(p, pool); err != nil {
			return "", err
		}
		r.apply(pool)
		pool.Failures, pool.FailureReason, pool.RetryAt = 0, "", time.Time{}
		return "was changed by " + p.Name, nil
	})
}

// apply sets the values that the request has.
func (r UpdatePoolRequest) apply(pool *fleet.Pool) {
	setIfGiven(&pool.MinIdle, r.MinIdle)
	setIfGiven(&pool.MaxAgents, r.MaxAgents)
	setIfGiven(&pool.MaxCreating, r.MaxCreating)
	setIfGiven(&pool.MaxIdle, r.MaxIdle)
	setIfGiven(&pool.Reuse, r.Reuse)
	setIfGiven(&pool.Groups, r.Groups)
}

// DeletePool lets the pool take no new tasks, and returns at once. The pool's agents are deleted when no task waits for the pool, and
// the pool itself when it has neither agents nor waiting tasks.
func (s *Service) DeletePool(ctx context.Context, name, requestID string) (*PoolView, error) {
	c := Call{Method: "DeletePool", RequestID: requestID, Body: name}
	return s.pools().changeNamed(ctx, c, name, func(_ fleet.Tx, p fleet.Principal, pool *fleet.Pool) (string, error) {
		if err := checkPoolChange(p, pool); err != nil || pool.Draining {
			return "", err
		}
		pool.Draining = true
		return "is being deleted by " + p.Name, nil
	})
}

// checkPoolChange returns PERMISSION_DENIED if p, who sees the pool, may not change it.
func checkPoolChange(p fleet.Principal, pool *fleet.Pool) error {
	switch {
	case !p.Owns(pool.Owner):
		return fleet.Errorf(fleet.ReasonPermissionDenied, "the pool %q belongs to %s", pool.Name, pool.Owner).With("pool", pool.Name).Next("ask its owner")
	case pool.Configured:
		return fleet.Errorf(fleet.ReasonPermissionDenied, "the pool %q is in the server's configuration", pool.Name).With("pool", pool.Name).
			Next("an operator can change it there and call {reload_config}")
	}
	return nil
}

// openPool returns the pool that ref names and for which p may queue tasks. The error is POOL_NOT_FOUND if the pool is being deleted.
func (s *Service) openPool(ctx context.Context, p fleet.Principal, ref string) (*fleet.Pool, error) {
	pool, err := s.pools().find(ctx, p, ref)
	if err == nil && pool.Draining {
		err = fleet.Errorf(fleet.ReasonPoolNotFound, "the pool %q is being deleted and takes no new tasks", pool.Name).With("pool", pool.Name).Next("{list_pools} lists the others")
	}
	return pool, err
}
