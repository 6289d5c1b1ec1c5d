package service

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// Replica is a server with details for operators.
type Replica struct {
	fleet.Replica
	Running bool // it holds its lease, and has not recorded that it stopped
	Agents  int  // number of existing agents on its machine
	Answers bool // it is the server that answers this call
}

// goneAfter is how long a server without agents is listed after it has ended. Commands with --embedded, and containers that
// were replaced, leave such servers behind.
const goneAfter = time.Hour

// ListReplicas returns the servers that share the store, sorted by name: all recorded servers, and servers that are only known because
// they have agents. It leaves out servers without agents that ended more than goneAfter ago. Package admission lets only admins call it.
func (s *Service) ListReplicas(ctx context.Context) ([]Replica, error) {
	all, err := s.replicas(ctx)
	return slices.DeleteFunc(all, func(r Replica) bool { return !r.Running && r.Agents == 0 && s.now().Sub(r.HeartbeatAt) > goneAfter }), err
}

// RecordedReplicas returns the recorded servers by name. It does not count their agents.
func (s *Service) RecordedReplicas(ctx context.Context) (map[string]*Replica, error) {
	recorded, err := s.store.Replicas(ctx)
	if err != nil {
		return nil, err
	}
	running, err := s.store.Leases(ctx, fleet.ReplicaLeasePrefix)
	if err != nil {
		return nil, err
	}
	all := map[string]*Replica{}
	for _, r := range recorded {
		_, held := running[fleet.ReplicaLeasePrefix+r.Name]
		all[r.Name] = &Replica{Replica: r, Running: held && !r.Stopped, Answers: r.Name == s.cfg.Replica}
	}
	return all, nil
}

// replicas returns the recorded servers and those that have agents, sorted by name.
func (s *Service) replicas(ctx context.Context) ([]Replica, error) {
	if err := s.snap.Refresh(ctx); err != nil {
		return nil, err
	}
	all, err := s.RecordedReplicas(ctx)
	if err != nil {
		return nil, err
	}
	for _, v := range s.snap.All() {
		_, server := fleet.SplitPlace(v.Place)
		if server == "" {
			continue
		}
		if all[server] == nil {
			all[server] = &Replica{Replica: fleet.Replica{Name: server}}
		}
		all[server].Agents++
	}
	out := make([]Replica, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, *all[name])
	}
	return out, nil
}

// forgetTTL is the duration of the leases with which ForgetReplica keeps the server from starting and its agents from being
// used. ForgetReplica renews the leases before it deletes each agent.
const forgetTTL = time.Minute

// ForgetResult describes what was lost with a server.
type ForgetResult struct {
	Agents []fleet.Agent // the agents on its machine
	Tasks  int           // number of their tasks that failed because of that
}

// ForgetReplica forgets a server that will never run again: it deletes the server's agents and fails their tasks. The error
// is REPLICA_RUNNING while the server runs. An interrupted call can be repeated. Package admission lets only admins call it.
func (s *Service) ForgetReplica(ctx context.Context, name string) (result ForgetResult, err error) {
	if name == "" {
		return result, fleet.InvalidField("name", "name is empty: name a server").Next("{list_replicas} describes them")
	}
	if err := s.checkReplicaExists(ctx, name); err != nil {
		return result, err
	}
	// With the leases, the server cannot start meanwhile, and a suspended worker of the server cannot write.
	owner := "forget/" + s.cfg.NewID()
	epochs := map[string]int64{}
	defer func() {
		for key := range epochs {
			_ = s.store.ReleaseLease(context.WithoutCancel(ctx), key, owner) // if this fails, the lease expires
		}
	}()
	acquire := func(key string) error {
		epoch, err := s.store.AcquireLease(ctx, key, owner, forgetTTL)
		if err == nil && epoch == 0 {
			return fleet.Errorf(fleet.ReasonReplicaRunning, "the server %q runs, or ran until a moment ago: stop it, and try again in 15 s", name).With("replica", name)
		}
		epochs[key] = epoch
		return err
	}
	if err := acquire(fleet.ReplicaLeasePrefix + name); err != nil {
		return result, err
	}
	var uids []string
	for _, v := range s.snap.All() {
		if _, server := fleet.SplitPlace(v.Place); server == name {
			uids = append(uids, v.UID)
			if err := acquire(fleet.AgentLeasePrefix + v.UID); err != nil {
				return result, err
			}
		}
	}
	if err := s.store.ForgetReplica(ctx, name); err != nil { // first: if the server starts after all, it must not work on agents that are being deleted
		return result, err
	}
	for _, uid := range uids {
		if _, err := s.store.RenewLeases(ctx, owner, forgetTTL, slices.Collect(maps.Keys(epochs))); err != nil {
			return result, err
		}
		leaseCtx := fleet.WithLease(ctx, fleet.Lease{Key: fleet.AgentLeasePrefix + uid, Epoch: epochs[fleet.AgentLeasePrefix+uid]})
		if err := s.forgetAgent(leaseCtx, uid, name, &result); err != nil {
			return result, err
		}
	}
	return result, nil
}

// checkReplicaExists returns REPLICA_NOT_FOUND if no server has the name.
func (s *Service) checkReplicaExists(ctx context.Context, name string) error {
	all, err := s.replicas(ctx)
	var names []string
	for _, r := range all {
		names = append(names, r.Name)
	}
	if err != nil || slices.Contains(names, name) {
		return err
	}
	return fleet.Errorf(fleet.ReasonReplicaNotFound, "server %q not found: the servers are %s", fleet.Shorten(name, 60), fleet.JoinNames(names)).
		With("replica", fleet.Shorten(name, 60)).Next("{list_replicas} describes them")
}

// forgetAgent marks an agent of the forgotten server as deleted, fails its task, and adds both to result. The context must have the
// agent's lease.
func (s *Service) forgetAgent(ctx context.Context, uid, server string, result *ForgetResult) error {
	var lostAgent *fleet.Agent
	tasks := 0
	err := s.store.Update(ctx, func(tx fleet.Tx) error {
		lostAgent, tasks = nil, 0
		v, err := state.ReadAgentView(tx, uid)
		if err != nil || v == nil || !v.DeletedAt.IsZero() {
			return err
		}
		a, t := &v.Agent, v.Task
		now := s.now()
		reason := fmt.Sprintf("it was on the machine of the server %s, which was forgotten because it will never run again", server)
		if t != nil {
			t.StopRequestedAt = time.Time{} // it was lost, not stopped
			if err := state.EndTask(tx, a, t, fleet.Outcome{Status: fleet.TaskFailed, Reason: "its agent was lost: " + reason, ReasonCode: fleet.CodePlaceLost}, now, nil); err != nil {
				return err
			}
			tasks = 1
		}
		if err := state.RevokeAgentTokens(tx, uid, now); err != nil {
			return err
		}
		a.State, a.Desired, a.StateReason, a.DeletedAt, a.UpdatedAt = fleet.StateDeleted, fleet.DesiredDeleted, reason, now, now
		if err := tx.Update(a); err != nil {
			return err
		}
		lostAgent = a
		return tx.Append(a.Event(fleet.EventAgentDeleted, now, "agent deleted: "+reason))
	})
	if err == nil && lostAgent != nil {
		result.Agents = append(result.Agents, *lostAgent)
		result.Tasks += tasks
	}
	return err
}

// Message tells people what was lost with the server.
func (f ForgetResult) Message(server string) string {
	if len(f.Agents) == 0 {
		return fmt.Sprintf("The server %s is forgotten. It had no agents.", server)
	}
	return fmt.Sprintf("The server %s is forgotten. Deleted agents: %s; tasks that failed: %d.", server, countedNames(f.Agents), f.Tasks)
}
