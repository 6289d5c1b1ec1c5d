package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newTaskSteps() *cobra.Command {
	var kinds []string
	cmd := &cobra.Command{
		Use:   "steps ID|AGENT",
		Short: "List what an agent did in a task, step by step",
		Long: `List the steps of a task, or of the newest task of an agent, in order: what the agent
wrote, the tools that it used, what was denied, requests that failed, limits. With -v also results of tools, thoughts,
changes of files, hooks and usage.

The kinds of steps are text, thinking, tool_call, tool_result, file_edit, denied,
question, message, retry, limit, compaction, todo_list, hook, background, usage,
warning, window and note. With -o json, each step is one line of JSON.`,
		Example: `  fleet task steps 3f2a... -v
  fleet task steps 3f2a... --kind denied,retry,limit
  fleet task steps 3f2a... --kind tool_call -o json | jq -r .tool_call.arguments.command`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			req := &fleetv1.ListTaskStepsRequest{Limit: proto.Int32(1000)}
			for _, name := range kinds {
				kind := fleetv1.StepKind_value[name]
				if kind == 0 {
					return usagef("--kind %s: give %s", name, orList(enumChoices(fleetv1.StepKind_name)))
				}
				req.Kinds = append(req.Kinds, fleetv1.StepKind(kind))
			}
			return s.withTask(ctx, args[0], func(id string) error {
				req.TaskId = id
				return s.printTaskSteps(ctx, req)
			})
		}),
	}
	cmd.Flags().StringSliceVar(&kinds, "kind", nil, "only steps of these `KINDS`, separated by commas")
	setCompletion(cmd, "kind", cobra.FixedCompletions(enumChoices(fleetv1.StepKind_name), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// detailKinds are the kinds of steps that people see only with -v or --kind.
var detailKinds = []fleetv1.StepKind{
	fleetv1.StepKind_thinking, fleetv1.StepKind_tool_result, fleetv1.StepKind_file_edit, fleetv1.StepKind_todo_list, fleetv1.StepKind_hook,
	fleetv1.StepKind_background, fleetv1.StepKind_usage,
}

// printTaskSteps prints all steps that the request selects, page by page. Unless -v or --kind is given, people do not see the
// detailKinds and the steps of subagents.
func (s *session) printTaskSteps(ctx context.Context, req *fleetv1.ListTaskStepsRequest) error {
	count := 0
	for {
		resp, err := s.fleet.ListTaskSteps(ctx, req)
		if err != nil {
			return err
		}
		for _, step := range resp.GetSteps() {
			if s.output.forPeople() && !s.verbose && len(req.GetKinds()) == 0 && (slices.Contains(detailKinds, step.GetKind()) || step.GetParentId() != "") {
				continue
			}
			count++
			if err := s.printStep(step); err != nil {
				return err
			}
		}
		if resp.NextCursor == nil {
			break
		}
		req.Cursor = resp.GetNextCursor()
	}
	if count == 0 {
		s.note("The task has no such steps.")
	}
	return s.screen.firstWriteErr()
}

func (s *session) printStep(step *fleetv1.Step) error {
	if !s.output.forPeople() {
		return s.printStreamItem(step)
	}
	head := step.GetTime().AsTime().UTC().Format(time.TimeOnly) + "  " + pad(step.GetKind().String(), 11) + "  "
	lines := strings.Split(strings.TrimRight(step.GetSummary(), "\r\n"), "\n")
	if patch := strings.TrimRight(step.GetFileEdit().GetPatch(), "\n"); patch != "" {
		lines = append(lines, strings.Split(patch, "\n")...)
	}
	colors := s.screen.outTerminal.hasColors(s.noColor)
	for i, line := range lines {
		if i > 0 {
			head = strings.Repeat(" ", len(head))
		}
		if step.GetParentId() != "" {
			line = "  " + line
		}
		s.screen.print(paint(colors, dim, head) + paint(colors, colorOf(step.GetKind()), printable(line)) + "\n")
	}
	return nil
}
