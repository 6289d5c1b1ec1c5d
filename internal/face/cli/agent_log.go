package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newAgentLog() *cobra.Command {
	req := &fleetv1.ShowAgentLogRequest{}
	cmd := &cobra.Command{
		Use:   "log AGENT",
		Short: "Show the log of an agent's workspace",
		Long: `Show how the workspace of an agent was made, started and stopped, and what its
host reports. "fleet watch --agent AGENT" shows what the agent itself wrote.`,
		Example: `  fleet agent log papi
  fleet agent log papi --lines 1000 | grep -i error`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			req.AgentName = args[0]
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
	cmd.Flags().VarP(optionalFlag[int32]{&req.Lines}, "lines", "n", "show the last `N` lines, at most 10000 (default 200)")
	return cmd
}
