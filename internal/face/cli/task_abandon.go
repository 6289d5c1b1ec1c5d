package cli

import (
	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newTaskAbandon() *cobra.Command {
	req := &fleetv1.AbandonTaskRequest{}
	cmd := methodCommand(p, &cobra.Command{
		Use:   "abandon ID|AGENT",
		Short: "Say that the work of a task is not needed",
		Long: `Say that the work of a task, or of the newest task of an agent, is not needed. It does not
land, and may be removed when it is old.`,
		Example: `  fleet task abandon papi --reason "done differently"`,
	}, fleetv1.FleetServiceClient.AbandonTask, req, func(s *session, resp *fleetv1.AbandonTaskResponse) {
		s.printResult(resp.GetMessage(), req.GetTaskId())
	})
	cmd.Flags().StringVar(&req.Reason, "reason", "", "`why` it is not needed")
	return cmd
}
