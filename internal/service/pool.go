package service

import (
	"context"
	"fmt"
	"time"

	"fleet/internal/fleet"
)

// CreatePoolRequest describes a pool: its values besides the owner, and the project and the role as a caller names them.
type CreatePoolRequest struct {
	fleet.Pool
	Project, Role string
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
	n, err := s.newWaitingAgent(ctx, CreateAgentRequest{Project: r.Project, Role: r.Role, Parameters: pool.Parameters})
	c.Refused = err
	if err == nil {
		pool.ProjectRole = fleet.ProjectRole{Place: n.place.Name, Project: n.project.Name, Role: n.role.Name}
		if !p.Reaches(pool.Place, pool.Project) {
			c.Refused = fleet.Errorf(fleet.ReasonPermissionDenied, "the token of %q is only valid for agents of these projects: %s", p.Name, fleet.JoinNames(p.Projects))
		}
	}
	pool.Owner, pool.By = p.Name, fleet.OnBehalf{Kind: p.Kind, Scope: p.Scope}
	pool.CreatedAt = s.now()
	return s.changePool(ctx, c, pool.Key(), func(tx fleet.Tx, old *fleet.Pool) (*fleet.Pool, string, error) {
		all, err := fleet.ReadResources[fleet.Pool](tx, fleet.ResourceFilter{Kind: fleet.PoolKind})
		switch {
		case err != nil:
			return nil, "", err
		case old != nil:
			return nil, "", fleet.Errorf(fleet.ReasonPoolExists, "a pool %q already exists", pool.Name).With("pool", pool.Name).With("field", "name").Next("choose another name")
		case len(all) >= fleet.MaxPools:
			return nil, "", fleet.LimitReached("pools", "the fleet has", int64(len(all)), fleet.MaxPools, "pools", "{delete_pool} deletes one")
		}
		return &pool, "created by " + p.Name, nil
	})
}

// UpdatePoolRequest says what changes about a pool. Nil leaves a value.
type UpdatePoolRequest struct {
	Name                            string
	MinIdle, MaxAgents, MaxCreating *int
	MaxIdle                         *time.Duration
	Reuse                           *fleet.Reuse
	Groups                          *[]string
	RequestID                       string `json:"-"`
}

// UpdatePool changes a pool. A pool that creates no agents any more because that has failed too often tries again.
func (s *Service) UpdatePool(ctx context.Context, r UpdatePoolRequest) (*PoolView, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	given := fleet.Pool{Name: "any"}
	given.SetDefaults()
	r.change(&given)
	if err := given.Validate(); err != nil {
		return nil, err
	}
	c := Call{Method: "UpdatePool", RequestID: r.RequestID, Body: r}
	key, err := s.ownPool(ctx, p, r.Name)
	c.Refused = err
	return s.changePool(ctx, c, key, func(_ fleet.Tx, pool *fleet.Pool) (*fleet.Pool, string, error) {
		if pool == nil {
			return nil, "", s.pools().notFound(r.Name)
		}
		r.change(pool)
		pool.Failures, pool.Failure, pool.RetryAt = 0, "", time.Time{}
		return pool, "changed by " + p.Name, nil
	})
}

// change sets the values that the request has.
func (r UpdatePoolRequest) change(pool *fleet.Pool) {
	set(&pool.MinIdle, r.MinIdle)
	set(&pool.MaxAgents, r.MaxAgents)
	set(&pool.MaxCreating, r.MaxCreating)
	set(&pool.MaxIdle, r.MaxIdle)
	set(&pool.Reuse, r.Reuse)
	set(&pool.Groups, r.Groups)
}

// DeletePool lets the pool take no new tasks. Its agents are deleted when the tasks that wait for it have ended.
func (s *Service) DeletePool(ctx context.Context, name, requestID string) (*PoolView, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	c := Call{Method: "DeletePool", RequestID: requestID, Body: name}
	key, err := s.ownPool(ctx, p, name)
	c.Refused = err
	return s.changePool(ctx, c, key, func(_ fleet.Tx, pool *fleet.Pool) (*fleet.Pool, string, error) {
		switch {
		case pool == nil:
			return nil, "", s.pools().notFound(name)
		case pool.Draining:
			return pool, "", nil
		}
		pool.Draining = true
		return pool, "is being deleted by " + p.Name, nil
	})
}

// ownPool returns the key of the pool that p names and may change.
func (s *Service) ownPool(ctx context.Context, p fleet.Principal, ref string) (key string, err error) {
	pool, err := s.seenPool(ctx, p, ref)
	switch {
	case err != nil:
		return "", err
	case !p.Owns(pool.Owner):
		return "", fleet.Errorf(fleet.ReasonPermissionDenied, "the pool %q belongs to %s", pool.Name, pool.Owner).With("pool", pool.Name).Next("ask its owner")
	case pool.Configured:
		return "", fleet.Errorf(fleet.ReasonPermissionDenied, "the pool %q is in the server's configuration", pool.Name).With("pool", pool.Name).
			Next("an operator can change it there and call {reload_config}")
	}
	return pool.Key(), nil
}

// seenPool returns the pool that p names and may use.
func (s *Service) seenPool(ctx context.Context, p fleet.Principal, ref string) (*fleet.Pool, error) {
	return s.pools().find(ctx, p, ref)
}

// changePool changes the pool with the key and returns it, see ownedKind.
func (s *Service) changePool(ctx context.Context, c Call, key string, change func(fleet.Tx, *fleet.Pool) (*fleet.Pool, string, error)) (*PoolView, error) {
	pool, before, err := s.pools().change(ctx, s, c, key, change)
	switch {
	case err != nil:
		return nil, err
	case pool == nil:
		return s.ShowPool(ctx, before)
	}
	return s.poolView(ctx, pool)
}

func readPool(tx fleet.ReadTx, key string) (*fleet.Pool, error) {
	return fleet.ReadResource[fleet.Pool](tx, fleet.PoolKind, key)
}

// putPool writes the pool and an event with the text.
func (s *Service) putPool(tx fleet.Tx, pool *fleet.Pool, text string) error {
	pool.UpdatedAt = s.now()
	if err := fleet.PutResource(tx, fleet.PoolKind, pool.Key(), pool); err != nil {
		return err
	}
	return tx.Append(s.poolEvent(pool, text))
}

func (s *Service) poolEvent(pool *fleet.Pool, text string) *fleet.Event {
	return &fleet.Event{Time: s.now(), Type: fleet.EventPoolChanged, Owner: pool.Owner, Text: fmt.Sprintf("the pool %s %s", pool.Name, text)}
}

// poolFor returns the pool that p names and may queue tasks for.
func (s *Service) poolFor(ctx context.Context, p fleet.Principal, ref string) (*fleet.Pool, error) {
	pool, err := s.seenPool(ctx, p, ref)
	if err == nil && pool.Draining {
		err = fleet.Errorf(fleet.ReasonPoolNotFound, "the pool %q is being deleted and takes no new tasks", pool.Name).With("pool", pool.Name).Next("{list_pools} lists the others")
	}
	return pool, err
}
