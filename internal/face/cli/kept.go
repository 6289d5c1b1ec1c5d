package cli

import (
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
