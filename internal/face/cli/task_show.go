package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newTaskShow() *cobra.Command {
	var payload bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show one task, or its payload",
		Long: `Show one task with all that is known of it: description, result, times, cost.

With --payload alone, the payload of the task, its result in full, is written to
standard output as it is. With -o json or yaml too, it is a field of the task.`,
		Example: `  fleet task show 3f2a...
  fleet task show 3f2a... --payload > result.txt
  fleet task show 3f2a... --payload -o json`,
		Args:              args("ID"),
		ValidArgsFunction: first(p.completeTasks),
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			resp, err := s.fleet.ShowTask(ctx, &fleetv1.ShowTaskRequest{TaskId: args[0], IncludePayload: payload})
			if err != nil {
				return err
			}
			t := resp.GetTask()
			if payload && s.output == table && t.Payload == nil {
				return Fail(ExitNotFound, "", "the task %s has no payload; its status is %s", t.GetId(), t.GetStatus())
			}
			return s.print(resp, func() {
				if payload {
					s.screen.output(t.GetPayload())
					return
				}
				s.showTask(t)
			})
		}),
	}
	cmd.Flags().BoolVar(&payload, "payload", false, "write the payload, and with -o table nothing else")
	return cmd
}

func (s *session) showTask(t *fleetv1.TaskDetail) {
	if s.quiet {
		s.screen.raw(printable(t.GetId()) + "\n")
		return
	}
	status := t.GetStatus().String()
	var c card
	c.line("Id", t.GetId())
	c.line("Agent", printable(t.GetAgentName()))
	c.line("Status", paint(s.screen.onOut.colored(s.noColor), colorOf(status), status)+because(t.GetReason()))
	c.line("Source", t.GetSource().String())
	c.line("Owner", printable(t.GetOwner()))
	c.line("Created", s.when(t.GetCreatedAt()))
	c.line("Started", s.when(t.GetStartedAt()))
	c.line("Ended", s.when(t.GetCompletedAt()))
	c.line("Took", s.took(t.GetStartedAt(), t.GetCompletedAt()))
	if t.ExitCode != nil {
		c.line("Exit code", fmt.Sprint(t.GetExitCode()))
	}
	if t.GetTurns() > 0 {
		c.line("Turns", fmt.Sprint(t.GetTurns()))
	}
	c.line("Cost", cost(t.GetCostUsd()))
	if t.GetPayloadSize() > 0 {
		c.line("Payload", fmt.Sprintf("%s (fleet task show %s --payload)", size(t.GetPayloadSize()), t.GetId()))
	}
	c.text("Summary", t.GetSummary())
	c.text("Description", t.GetDescription())
	c.text("Last output", t.GetPreview())
	s.screen.output(c.b.String())
}

// cost is an amount in US dollars; empty for none.
func cost(usd float64) string {
	switch {
	case usd <= 0:
		return ""
	case usd < 0.01:
		return fmt.Sprintf("$%.4f", usd)
	}
	return fmt.Sprintf("$%.2f", usd)
}

// size is a number of bytes for people.
func size(n int32) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
