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
	return &fleetv1.ListReplicasResponse{Replicas: listOf(all, replicaOf)}, nil
}

func replicaOf(r service.Replica) *fleetv1.Replica {
	state := fleetv1.Replica_unreachable
	switch {
	case r.Running:
		state = fleetv1.Replica_running
	case r.Stopped:
		state = fleetv1.Replica_stopped
	}
	return &fleetv1.Replica{
		Name: r.Name, State: state, Address: r.Address, Version: r.Version, StartedAt: timeOf(r.StartedAt), HeardAt: timeOf(r.HeartbeatAt),
		Agents: int32Of(r.Agents), Answers: r.Answers,
	}
}

// ForgetReplica deletes the agents of a server that never runs again, and fails their tasks.
func (f *Fleet) ForgetReplica(ctx context.Context, r *fleetv1.ForgetReplicaRequest) (*fleetv1.ForgetReplicaResponse, error) {
	lost, err := f.svc.ForgetReplica(ctx, r.GetName())
	if err != nil {
		return nil, err
	}
	p, err := fleet.PrincipalFrom(ctx)
	return &fleetv1.ForgetReplicaResponse{Agents: listOf(lost.Agents, agentRefFor(p)), Tasks: int32Of(lost.Tasks), Message: lost.Message(r.GetName())}, err
}

// agentRefFor returns a function that returns the reference with which the principal names an agent: NAME, or NAME@OWNER if the
// agent belongs to somebody else.
func agentRefFor(p fleet.Principal) func(fleet.Agent) string {
	return func(a fleet.Agent) string {
		if a.Owner == p.Name {
			return a.Name
		}
		return a.Name + "@" + a.Owner
	}
}
