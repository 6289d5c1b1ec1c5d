package cli

import (
	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newAgentMove() *cobra.Command {
	var noPool bool
	var pool string
	request := &fleetv1.PlanBulkRequest{}
	cmd := &cobra.Command{
		Use:   "move [AGENT]...",
		Short: "Move agents to a pool, or out of their pool",
		Long: `Move agents to a pool, or out of their pool. The pool gives them its tasks, and deletes
them when they are idle for too long. The agents must belong to the owner of the pool,
and have its project and its role.`,
		Example: `  fleet agent move papi sony --pool web
  fleet agent move -l pool=web --no-pool`,
	}
	cmd.Flags().StringVar(&pool, "pool", "", "move them to `POOL`")
	cmd.Flags().BoolVar(&noPool, "no-pool", false, "move them out of their pool")
	addRequestID(cmd, request)
	return p.addBulk(cmd, "agents", bulkCommand{
		takesSeveral: true,
		operation:    fleetv1.PlanBulkRequest_move, progress: "moving", request: request, flags: []string{"pool", "no-pool"},
		fill: func(_ *session, req *fleetv1.PlanBulkRequest, _ []string) error {
			if noPool == (pool != "") {
				return usagef("say where the agents move: give --pool POOL, or --no-pool")
			}
			req.Pool = pool
			return nil
		},
	})
}
