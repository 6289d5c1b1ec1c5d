package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func (p *program) newUp() *cobra.Command {
	var task taskFlags
	var role string
	var maxIdle *int32
	cmd := &cobra.Command{
		Use:   "up PROJECT DESCRIPTION|-|@FILE",
		Short: "Create an agent for one task",
		Long: `Create an agent in a project and give it a task. It is named after the task, and deleted
when it has had no task for some time. Its work is kept.
` + descriptionHelp + `

Next, follow with "fleet watch --task ID --follow", or wait with "fleet task wait ID".`,
		Example: `  fleet up webshop "Fix the login"
  id=$(fleet up webshop @task.md --role reviewer -q) && fleet task wait "$id"`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			req, err := task.queueRequest(s, "", args[1])
			if err != nil {
				return err
			}
			req.Project, req.Role, req.NewAgent, req.MaxIdleSeconds = args[0], role, true, maxIdle
			resp, err := s.fleet.QueueTask(ctx, req)
			return s.print(resp, err, func() {
				t := resp.GetTask()
				s.screen.print(printable(t.GetId()) + "\n")
				s.hint("The agent %s is being created for it. Follow it: fleet watch --task %s --follow", t.GetAgentName(), t.GetId())
			})
		}),
	}
	task.addTo(cmd)
	cmd.Flags().StringVar(&role, "role", "", "the `ROLE` of the agent (default: the project's)")
	addSeconds(cmd, "max-idle", "delete the agent when it has been idle for `DURATION` (default 10m)", func(n int32) { maxIdle = &n })
	return cmd
}
