package cli

import (
	"context"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newTaskRetry() *cobra.Command {
	var requestID string
	var follow bool
	cmd := &cobra.Command{
		Use:   "retry ID",
		Short: "Start a task that has ended again",
		Long: `Start a task that has ended again, as a new task of the same agent, with the same
description, time limit, checks and options. The command prints the id of the new task.

The beginning of an id, at least 6 characters, is enough. The agent must be idle.`,
		Example: `  fleet task retry 3f2a1b0c
  fleet task retry 3f2a1b0c --follow`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			resp, err := s.fleet.RetryTask(ctx, &fleetv1.RetryTaskRequest{TaskId: args[0], RequestId: requestID})
			switch {
			case err != nil:
				return err
			case follow:
				return s.follow(ctx, resp.GetTask(), false)
			}
			return s.tellStarted(resp)
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "show what the agent writes until the task has ended")
	addRequestID(cmd, &requestID)
	return cmd
}
