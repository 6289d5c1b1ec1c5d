package rpc

import (
	"context"
	"fmt"
	"time"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/service"
)

// CreatePool creates a pool.
func (f *Fleet) CreatePool(ctx context.Context, r *fleetv1.CreatePoolRequest) (*fleetv1.CreatePoolResponse, error) {
	v, err := f.svc.CreatePool(ctx, service.CreatePoolRequest{
		Project: r.GetProject(), Role: r.GetRole(), RequestID: r.GetRequestId(), Pool: fleet.Pool{
			Name: r.GetName(), Spec: r.GetSpec(), MaxAgents: countIn(r.MaxAgents), MinIdle: int(r.GetMinIdle()), MaxCreating: countIn(r.MaxCreating),
			MaxIdle: timeLimitIn(r.MaxIdleSeconds), Reuse: fleet.ReusePolicy(nameIn(r.GetReuse())), Groups: r.GetGroups(), Parameters: r.GetParameters(), Labels: labelsIn(r.GetLabels()),
		},
	})
	if err != nil {
		return nil, err
	}
	return &fleetv1.CreatePoolResponse{Pool: poolOf(v), Message: fmt.Sprintf("Pool '%s' created successfully", v.Name)}, nil
}

// UpdatePool changes a pool.
func (f *Fleet) UpdatePool(ctx context.Context, r *fleetv1.UpdatePoolRequest) (*fleetv1.UpdatePoolResponse, error) {
	u := service.UpdatePoolRequest{
		Name: r.GetName(), MinIdle: intIn(r.MinIdle), MaxAgents: intIn(r.MaxAgents), MaxCreating: intIn(r.MaxCreating), RequestID: r.GetRequestId(),
	}
	if r.MaxIdleSeconds != nil {
		u.MaxIdle = new(time.Duration(r.GetMaxIdleSeconds()) * time.Second)
	}
	u.Reuse = optional(fleet.ReusePolicy(nameIn(r.GetReuse())))
	if len(r.GetGroups()) > 0 {
		u.Groups = new(r.GetGroups())
	}
	v, err := f.svc.UpdatePool(ctx, u)
	if err != nil {
		return nil, err
	}
	return &fleetv1.UpdatePoolResponse{Pool: poolOf(v), Message: fmt.Sprintf("Pool '%s' changed successfully", v.Name)}, nil
}

// DeletePool drains a pool: it takes no new tasks, and is deleted with its last agent.
func (f *Fleet) DeletePool(ctx context.Context, r *fleetv1.DeletePoolRequest) (*fleetv1.DeletePoolResponse, error) {
	v, err := f.svc.DeletePool(ctx, r.GetName(), r.GetRequestId())
	if err != nil {
		return nil, err
	}
	return &fleetv1.DeletePoolResponse{Pool: poolOf(v), Message: fmt.Sprintf("Pool '%s' takes no new tasks, and is deleted with its last agent", v.Name)}, nil
}

// ListPools lists pools.
func (f *Fleet) ListPools(ctx context.Context, r *fleetv1.ListPoolsRequest) (*fleetv1.ListPoolsResponse, error) {
	pools, total, next, err := f.svc.ListPools(ctx, service.ListOwnedRequest{Selector: r.GetSelector(), PageRequest: cursorPageIn(r.GetCursor(), r.Limit)})
	if err != nil {
		return nil, err
	}
	return &fleetv1.ListPoolsResponse{Pools: listOf(pools, poolOf), TotalCount: int32Of(total), NextCursor: optional(next)}, nil
}

// ShowPool shows a pool.
func (f *Fleet) ShowPool(ctx context.Context, r *fleetv1.ShowPoolRequest) (*fleetv1.ShowPoolResponse, error) {
	v, err := f.svc.ShowPool(ctx, r.GetName())
	if err != nil {
		return nil, err
	}
	return &fleetv1.ShowPoolResponse{Pool: poolOf(v), AgentNames: listOf(v.Agents, func(a *fleet.AgentView) string { return a.Name })}, nil
}

// countIn returns the number, or 0 if none is given. For a given 0, it returns a negative number, which the core refuses.
func countIn(n *int32) int {
	switch {
	case n == nil:
		return 0
	case *n == 0:
		return -1
	}
	return int(*n)
}

func poolOf(v *service.PoolView) *fleetv1.Pool {
	return &fleetv1.Pool{
		Name: v.Name, Owner: v.Owner, Place: v.Place, Project: v.Project, Role: v.Role, MaxAgents: int32Of(v.MaxAgents), MinIdle: int32Of(v.MinIdle),
		MaxCreating: int32Of(v.MaxCreating), MaxIdleSeconds: int32Of(int(v.MaxIdle.Seconds())), Reuse: fleetv1.Pool_Reuse(fleetv1.Pool_Reuse_value[string(v.Reuse)]), Groups: v.Groups,
		Idle: int32Of(v.Idle), Busy: int32Of(v.Busy), Starting: int32Of(v.Starting), Offline: int32Of(v.Offline), Waiting: int32Of(v.Waiting),
		Draining: v.Draining, Configured: v.Configured, Paused: v.Paused(), Failures: int32Of(v.Failures), Failure: optional(textOf(v.FailureReason)),
		RetryAt: timeOf(v.RetryAt), CreatedAt: timeOf(v.CreatedAt), Labels: labelsOf(v.Labels),
	}
}
