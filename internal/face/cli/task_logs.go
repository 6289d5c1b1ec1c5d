package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newTaskLogs() *cobra.Command {
	var lines int
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs ID|AGENT",
		Short: "Print what a task has written, and its steps",
		Long: `Print what a task, or the newest task of an agent, has written so far, and its steps on
standard error: what tools it used, what was denied, what went wrong. With -v also results of tools, thoughts
and changes of files. With --follow, stay until the task has ended.

A very long output lacks its middle; "fleet task output ID" prints more of it.`,
		Example: `  fleet task logs 3f2a...
  fleet task logs papi
  fleet task logs 3f2a... --tail 20 --follow`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			switch hasTail := s.cmd.Flags().Changed("tail"); {
			case !hasTail:
				lines = -1
			case lines < 0:
				return usagef("--tail is %d: give 0 or more lines", lines)
			}
			return s.withTask(ctx, args[0], func(id string) error { return s.printTaskLogs(ctx, id, lines, follow) })
		}),
	}
	cmd.Flags().IntVar(&lines, "tail", 0, "print only the last `N` lines of the output so far, without its steps (default all)")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "stay until the task has ended")
	return cmd
}

// printTaskLogs prints the output and the steps of the task so far. If lines is not negative, it prints only that many last lines of
// the output, and no steps. With follow, it then prints new output and steps until the task ends, and lets
// the user answer the task's questions.
func (s *session) printTaskLogs(ctx context.Context, id string, lines int, follow bool) error {
	resp, err := s.fleet.ShowTask(ctx, &fleetv1.ShowTaskRequest{TaskId: id})
	if err != nil {
		return err
	}
	task := resp.GetTask()
	var outputSoFar strings.Builder // collected only if lines is not negative
	f := s.newEventFeed(&fleetv1.WatchFleetRequest{TaskId: task.GetId(), Details: true})
	var prompter *prompter
	show := func(e *fleetv1.Event) error {
		if e.GetType() == fleetv1.Event_task_output {
			s.screen.printPart(e.GetText())
		} else {
			s.printEventLines(s.eventLines(e))
			if follow && !hasEnded(task.GetStatus()) {
				prompter.handleEvent(s, e)
			}
		}
		return s.screen.firstWriteErr()
	}
	err = f.run(ctx, func(e *fleetv1.Event) error {
		if lines < 0 {
			return show(e)
		}
		if e.GetType() == fleetv1.Event_task_output {
			outputSoFar.WriteString(e.GetText())
		}
		return nil
	}, nil)
	if err != nil {
		return err
	}
	s.screen.printPart(lastLines(outputSoFar.String(), lines))
	if !follow || hasEnded(task.GetStatus()) {
		return s.screen.firstWriteErr()
	}
	var stopAsking func()
	prompter, stopAsking = s.startPrompter(ctx, task.GetId())
	defer stopAsking()
	f.req.Follow, f.req.MaxEvents = true, nil
	return f.run(ctx, show, s.hasEndedFunc(ctx, task.GetId()))
}

// lastLines returns the last n lines of the text, or the whole text if it has fewer.
func lastLines(text string, n int) string {
	lines := slices.Collect(strings.Lines(text))
	return strings.Join(lines[max(0, len(lines)-max(0, n)):], "")
}
