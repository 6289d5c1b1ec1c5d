package cli

import (
	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newReload() *cobra.Command {
	return methodCommand(p, &cobra.Command{
		Use:   "reload",
		Short: "Let a server read its fleet.yaml again",
		Long: `Let the server read its fleet.yaml again, and use the projects, roles, prices and limits in
it. Running tasks go on. If the file is wrong, or changes a setting that needs a restart,
nothing changes and the error says why. SIGHUP does the same. Only admins can do this.

Each server reads its own file. Of several servers on a store, the one that --server names
is reloaded.`,
		Example: `  fleet reload
  fleet reload -o json | jq -r '.closed_agents[]'`,
	}, fleetv1.FleetServiceClient.ReloadConfig, &fleetv1.ReloadConfigRequest{}, func(s *session, resp *fleetv1.ReloadConfigResponse) {
		s.printResult(resp.GetMessage(), resp.GetFile())
	})
}
