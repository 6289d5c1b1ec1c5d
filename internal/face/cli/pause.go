package cli

import (
	"context"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newPause() *cobra.Command {
	return callsTool(&cobra.Command{
		Use:   "pause [REASON]",
		Short: "Let no task of the fleet start until \"fleet resume\"",
		Long: `Let no task of the fleet start until "fleet resume". Running tasks go on. Queued tasks wait,
and say who has paused the fleet and why. Commands that would start a task now fail. Only
admins can do this.`,
		Example: `  fleet pause "the database is being upgraded"`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			req := &fleetv1.PauseFleetRequest{}
			if len(args) > 0 {
				req.Reason = args[0]
			}
			resp, err := s.fleet.PauseFleet(ctx, req)
			return s.print(resp, err, func() { s.printResult(resp.GetMessage(), "") })
		}),
	}, "pause_fleet")
}

func (p *program) newResume() *cobra.Command {
	return methodCommand(p, &cobra.Command{
		Use:     "resume",
		Short:   "Let tasks start again after \"fleet pause\"",
		Long:    `Let tasks start again after "fleet pause". Only admins can do this.`,
		Example: `  fleet resume`,
	}, fleetv1.FleetServiceClient.ResumeFleet, &fleetv1.ResumeFleetRequest{}, printMessage[*fleetv1.ResumeFleetResponse])
}
