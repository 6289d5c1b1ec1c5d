package cli

import (
	"context"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newKept() *cobra.Command {
	cmd := Group(&cobra.Command{
		Use:   "kept",
		Short: "Show what is kept of deleted agents",
		Long: `If an agent on the server's machine is deleted while work in its directory may exist
nowhere else, Fleet keeps the directory for a while. "fleet agent restore" brings the
agent back.`,
		Example: `  fleet kept list
  fleet agent restore papi`,
	})
	cmd.AddCommand(p.newKeptList())
	return cmd
}

func (p *program) newKeptList() *cobra.Command {
	return methodCommand(p, &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the kept directories of deleted agents",
		Long: `List the kept directories of your deleted agents, oldest first, with what may exist
only there. They are removed when their time is over or, oldest first, when all of
them exceed their size limit.`,
		Example: `  fleet kept list
  fleet kept list -o json`,
	}, fleetv1.FleetServiceClient.ListKeptWork, &fleetv1.ListKeptWorkRequest{}, func(s *session, resp *fleetv1.ListKeptWorkResponse) {
		printList(s, resp.GetKept(), "Nothing is kept.",
			s.agentColumn(), column{"ID", "agent_id"}, column{"SIZE", func(k *fleetv1.KeptWork) string { return sizeText(k.GetSize()) }}, column{"DELETED", (*fleetv1.KeptWork).GetKeptAt},
			column{"KEPT UNTIL", func(k *fleetv1.KeptWork) string { return s.timeText(k.GetExpiresAt()) }}, column{"WHAT", "reason"})
		if len(resp.GetKept()) > 0 {
			s.hint("Bring an agent back: fleet agent restore AGENT")
		}
	})
}

func (p *program) newAgentRestore() *cobra.Command {
	req := &fleetv1.RestoreAgentRequest{}
	cmd := stateCommand(p, &cobra.Command{
		Use:   "restore AGENT",
		Short: "Bring a deleted agent back, with its kept directory",
		Long: `Bring a deleted agent back, with its kept directory, its history and its conversation,
and wait until it is ready. "fleet kept list" shows which agents can be restored. If
several deleted agents had the name, --id says which one is meant; by default it is
the one that was deleted last.`,
		Example: `  fleet agent restore papi
  fleet agent restore papi --id 0198c0de-7f3a-7c1e-9d55-2f0c3b8a6e11`,
	}, stateTexts{progress: "restoring", targetState: "ready", nextHint: giveWorkHint, retryCommand: "fleet agent start %s"}, req, func(ctx context.Context, s *session, req *fleetv1.RestoreAgentRequest) (agentResponse, error) {
		return s.fleet.RestoreAgent(ctx, req)
	})
	addOptional(cmd.Flags(), &req.AgentId, "id", "restore the agent with this `ID`")
	return cmd
}
