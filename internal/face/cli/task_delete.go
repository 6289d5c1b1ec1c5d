package cli

import (
	"context"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newTaskDelete() *cobra.Command {
	return &cobra.Command{
		Use:     "delete ID...",
		Aliases: []string{"rm"},
		Short:   "Delete tasks that have ended, with their payloads",
		Long: `Delete tasks that have ended, with their payloads, messages and events. What the
agents made in their workspaces stays.

The beginning of an id, at least 6 characters, is enough. A task that has not ended
cannot be deleted: "fleet task stop AGENT" stops it.`,
		Example: `  fleet task delete 3f2a1b0c
  fleet task list --status failed -q | xargs -r fleet task delete`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			for _, id := range args {
				resp, err := s.fleet.DeleteTask(ctx, &fleetv1.DeleteTaskRequest{TaskId: id})
				if err := s.print(resp, err, func() { s.say(resp.GetMessage()+": "+resp.GetTaskId(), resp.GetTaskId()) }); err != nil {
					return err
				}
			}
			return nil
		}),
	}
}
