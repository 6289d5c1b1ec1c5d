package rpc

import (
	"context"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/service"
)

// ListReplicas lists the servers that share the store.
func (f *Fleet) ListReplicas(ctx context.Context, _ *fleetv1.ListReplicasRequest) (*fleetv1.ListReplicasResponse, error) {
	all, err := f.svc.ListReplicas(ctx)
	if err != nil {
		return nil, err
	}
	resp := &fleetv1.ListReplicasResponse{Replicas: make([]*fleetv1.Replica, len(all))}
	for i, r := range all {
		resp.Replicas[i] = &fleetv1.Replica{
			Name: r.Name, State: replicaState(r), Address: r.Address, Version: r.Version, StartedAt: timeOf(r.StartedAt), HeardAt: timeOf(r.HeartbeatAt),
			Agents: int32Of(r.Agents), Answers: r.Answers,
		}
	}
	return resp, nil
}

func replicaState(r service.Replica) fleetv1.Replica_State {
	switch {
	case r.Running:
		return fleetv1.Replica_running
	case r.Stopped:
		return fleetv1.Replica_stopped
	}
	return fleetv1.Replica_unreachable
}

// ForgetReplica forgets a server that never comes back.
func (f *Fleet) ForgetReplica(ctx context.Context, r *fleetv1.ForgetReplicaRequest) (*fleetv1.ForgetReplicaResponse, error) {
	lost, err := f.svc.ForgetReplica(ctx, r.GetName())
	if err != nil {
		return nil, err
	}
	resp := &fleetv1.ForgetReplicaResponse{Agents: make([]string, len(lost.Agents)), Tasks: int32Of(lost.Tasks), Message: lost.Message(r.GetName())}
	p, err := fleet.PrincipalFrom(ctx)
	for i, a := range lost.Agents {
		if resp.Agents[i] = a.Name; a.Owner != p.Name {
			resp.Agents[i] += "@" + a.Owner
		}
	}
	return resp, err
}
