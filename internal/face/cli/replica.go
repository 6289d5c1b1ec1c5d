package cli

import (
	"context"

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
	cmd.AddCommand(calls(p.newReplicaList(), "list_replicas"), calls(p.newReplicaForget(), "forget_replica"))
	return cmd
}

func (p *program) newReplicaList() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the servers",
		Long:    `List the servers that share the store: which of them run, where they are, and how long a server has not answered.`,
		Example: `  fleet replica list`,
		RunE: p.action(func(ctx context.Context, s *session, _ []string) error {
			resp, err := s.fleet.ListReplicas(ctx, &fleetv1.ListReplicasRequest{})
			return s.print(resp, err, func() {
				list(s, resp.GetReplicas(), "The store is in SQLite, so no other server shares it.",
					column{"NAME", "name"}, column{"STATE", s.replicaState}, column{"ADDRESS", "address"}, column{"VERSION", "version"}, column{"AGENTS", "agents"}, column{"AGE", "started_at"})
			})
		}),
	}
}

// replicaState returns the state of the server, and how long it has not answered.
func (s *session) replicaState(r *fleetv1.Replica) cell {
	switch {
	case r.GetState() == fleetv1.Replica_running:
		return cell{"running", green}
	case r.GetHeardAt() == nil:
		return cell{r.GetState().String(), red}
	case r.GetState() == fleetv1.Replica_stopped:
		return cell{"stopped " + s.age(r.GetHeardAt()) + " ago", yellow}
	}
	return cell{"unreachable for " + s.age(r.GetHeardAt()), red}
}

func (p *program) newReplicaForget() *cobra.Command {
	return &cobra.Command{
		Use:   "forget NAME",
		Short: "Delete the agents of a server that never comes back",
		Long: `Forget a server whose machine never comes back. Its agents are deleted, with all work
that is only on that machine, and their tasks fail. A running server cannot be forgotten.

If the machine comes back after all, its server refuses to start with the old data.`,
		Example:           `  fleet replica forget build-7`,
		ValidArgsFunction: p.offering(replicaNames),
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			resp, err := s.fleet.ForgetReplica(ctx, &fleetv1.ForgetReplicaRequest{Name: args[0]})
			return s.print(resp, err, func() { s.say(resp.GetMessage(), args[0]) })
		}),
	}
}

func (p *program) newReload() *cobra.Command {
	return calls(&cobra.Command{
		Use:   "reload",
		Short: "Let a server read its fleet.yaml again",
		Long: `Let the server read its fleet.yaml again, and use the projects, roles, prices and limits in
it. Running tasks go on. If the file is wrong, or changes a setting that needs a restart,
nothing changes and the error says why. SIGHUP does the same. Only admins can do this.

Each server reads its own file. Of several servers on a store, the one that --server names
is reloaded.`,
		Example: `  fleet reload
  fleet reload -o json | jq -r '.closed_agents[]'`,
		RunE: p.action(func(ctx context.Context, s *session, _ []string) error {
			resp, err := s.fleet.ReloadConfig(ctx, &fleetv1.ReloadConfigRequest{})
			return s.print(resp, err, func() { s.say(resp.GetMessage(), resp.GetFile()) })
		}),
	}, "reload_config")
}
