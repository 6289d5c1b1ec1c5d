package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newAgentLog() *cobra.Command {
	var lines int32
	cmd := &cobra.Command{
		Use:   "log AGENT",
		Short: "Show the log of an agent's workspace",
		Long: `Show how the workspace of an agent was made, started and stopped, and what its
host reports. "fleet watch --agent AGENT" shows what the agent itself wrote.`,
		Example: `  fleet agent log papi
  fleet agent log papi --lines 1000 | grep -i error`,
		Args:              args("AGENT"),
		ValidArgsFunction: p.completeAgent(),
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			req := &fleetv1.ShowAgentLogRequest{AgentName: args[0]}
			if s.cmd.Flags().Changed("lines") {
				req.Lines = &lines
			}
			resp, err := s.fleet.ShowAgentLog(ctx, req)
			return s.print(resp, err, func() {
				if resp.GetTruncated() {
					s.hint("Older lines are left out; --lines N shows more.")
				}
				if len(resp.GetLines()) == 0 {
					s.hint("The log is empty.")
				}
				for _, line := range resp.GetLines() {
					s.screen.output(strings.TrimRight(line, "\r\n") + "\n")
				}
			})
		}),
	}
	cmd.Flags().Int32VarP(&lines, "lines", "n", 200, "show the last `N` lines, at most 10000")
	complete(cmd, "lines", cobra.NoFileCompletions)
	return cmd
}
