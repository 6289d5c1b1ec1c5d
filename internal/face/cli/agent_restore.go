package cli

import (
	"context"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

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
