package cli

import (
	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newPause() *cobra.Command {
	return methodCommand(p, &cobra.Command{
		Use:   "pause [REASON]",
		Short: "Let no task of the fleet start until \"fleet resume\"",
		Long: `Let no task of the fleet start until "fleet resume". Running tasks go on. Queued tasks wait,
and say who has paused the fleet and why. Commands that would start a task now fail. Only
admins can do this.`,
		Example: `  fleet pause "the database is being upgraded"`,
	}, fleetv1.FleetServiceClient.PauseFleet, &fleetv1.PauseFleetRequest{}, func(s *session, resp *fleetv1.PauseFleetResponse) {
		s.printResult(resp.GetMessage(), "")
	})
}

func (p *program) newResume() *cobra.Command {
	return methodCommand(p, &cobra.Command{
		Use:     "resume",
		Short:   "Let tasks start again after \"fleet pause\"",
		Long:    `Let tasks start again after "fleet pause". Only admins can do this.`,
		Example: `  fleet resume`,
	}, fleetv1.FleetServiceClient.ResumeFleet, &fleetv1.ResumeFleetRequest{}, printMessage[*fleetv1.ResumeFleetResponse])
}
