package cli

import (
	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newReplica() *cobra.Command {
	cmd := Group(&cobra.Command{
		Use:     "replica",
		Aliases: []string{"replicas"},
		Short:   "Manage the servers that share a Postgres store",
		Long: `Several servers can share one Postgres store. Each has a name, and agents on its machine.
Only admins can manage them.`,
		Example: `  fleet replica list
  fleet replica forget build-7`,
	})
	cmd.AddCommand(p.newReplicaList(), p.newReplicaForget())
	return cmd
}

func (p *program) newReplicaList() *cobra.Command {
	return methodCommand(p, &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the servers",
		Long:    `List the servers that share the store: which of them run, where they are, and how long a server has not answered.`,
		Example: `  fleet replica list`,
	}, fleetv1.FleetServiceClient.ListReplicas, &fleetv1.ListReplicasRequest{}, func(s *session, resp *fleetv1.ListReplicasResponse) {
		printList(s, resp.GetReplicas(), "The store is in SQLite, so no other server shares it.",
			column{"NAME", "name"}, column{"STATE", s.replicaState}, column{"ADDRESS", "address"}, column{"VERSION", "version"}, column{"AGENTS", "agents"}, column{"AGE", (*fleetv1.Replica).GetStartedAt})
	})
}

// replicaState returns the state of the server, and how long ago it last answered unless it is running.
func (s *session) replicaState(r *fleetv1.Replica) cell {
	switch {
	case r.GetState() == fleetv1.Replica_running:
		return cell{"running", green}
	case r.GetHeardAt() == nil:
		return cell{r.GetState().String(), red}
	case r.GetState() == fleetv1.Replica_stopped:
		return cell{"stopped " + s.ageText(r.GetHeardAt()) + " ago", yellow}
	}
	return cell{"unreachable for " + s.ageText(r.GetHeardAt()), red}
}

func (p *program) newReplicaForget() *cobra.Command {
	return methodCommand(p, &cobra.Command{
		Use:   "forget NAME",
		Short: "Delete the agents of a server that never comes back",
		Long: `Forget a server whose machine never comes back. Its agents are deleted, with all work
that is only on that machine, and their tasks fail. A running server cannot be forgotten.

If the machine comes back after all, its server refuses to start with the old data.`,
		Example:           `  fleet replica forget build-7`,
		ValidArgsFunction: p.completionFrom(completeReplicas),
	}, fleetv1.FleetServiceClient.ForgetReplica, &fleetv1.ForgetReplicaRequest{}, printMessage[*fleetv1.ForgetReplicaResponse])
}
