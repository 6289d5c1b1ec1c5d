package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newTaskFanOut() *cobra.Command {
	req := &fleetv1.FanOutTaskRequest{}
	var task taskFlags
	var when queueFlags
	cmd := &cobra.Command{
		Use:   "fan-out TARGET DESCRIPTION|-|@FILE",
		Short: "Give one prompt to several agents or models",
		Long: `Queue several tasks with the same description, each on an agent that works on none of the
others. TARGET is pool:NAME for agents of a pool, or project:NAME for new agents in the
project, which are deleted when they have had no task for some time.
` + descriptionHelp + `

"fleet task compare ID" compares the work of the tasks, and "fleet task keep ID" chooses
one.`,
		Example: `  fleet task fan-out pool:web "Fix the login" --count 3
  fleet task fan-out project:webshop @task.md --model sonnet --model opus --check "make test"`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) (err error) {
			agent, pool, project := parseTarget(args[0])
			if agent != "" {
				return usagef("%q is neither pool:NAME nor project:NAME", printable(agent))
			}
			req.Pool, req.Project = pool, project
			if req.TaskDescription, err = s.readArgument(args[1], "description"); err != nil {
				return err
			}
			if err := task.readFiles(s); err != nil {
				return err
			}
			req.Attachments, req.DependsOn = task.req.GetAttachments(), when.dependencies()
			resp, err := s.fleet.FanOutTask(ctx, req)
			return s.print(resp, err, func() {
				for _, t := range resp.GetTasks() {
					s.screen.print(printable(t.GetId()) + "\n")
				}
				s.hint("Compare them: fleet task compare %s", shortID(resp.GetTasks()[0].GetId()))
			})
		}),
	}
	f := cmd.Flags()
	addOptional(f, &req.Count, "count", "queue `N` tasks, 2 to 16")
	f.StringArrayVar(&req.Models, "model", nil, "queue a task for this `MODEL`; can be repeated")
	f.StringVar(&req.Role, "role", "", "the `ROLE` of the agents of project:NAME (default: the project's)")
	f.StringArrayVar(&req.Checks, "check", nil, "the tasks complete only if `COMMAND` succeeds in the agent's tree; can be repeated")
	addOptional(f, &req.MaxCostUsd, "max-cost", "each task fails when it has cost `USD`")
	addOptional(f, &req.Effort, "effort", "how much the models think, such as low, medium or high: `LEVEL`")
	addSeconds(cmd, "timeout", "stop a task after `DURATION`, such as 30m, and count it as failed (default: the server's)", func(n int32) { req.TimeoutSeconds = &n })
	f.StringArrayVar(&task.attachments, "attach", nil, "give the agents this `FILE` for the task; can be repeated")
	addLabels(cmd, &req.Labels, "the tasks")
	when.addDependencies(cmd)
	addRequestID(cmd, req)
	return callsTool(cmd, "fan_out_task")
}

func (p *program) newTaskCompare() *cobra.Command {
	return methodCommand(p, &cobra.Command{
		Use:   "compare ID|AGENT",
		Short: "Compare tasks with the same prompt",
		Long: `Compare the tasks that "fleet task fan-out" has queued together: how far each is, how much it
changed, whether its checks passed, what it cost, how long it took, and which of their
work changes the same lines. ID is that of any of them.`,
		Example: `  fleet task compare 3f2a1b0c`,
	}, fleetv1.FleetServiceClient.CompareFanOut, &fleetv1.CompareFanOutRequest{}, func(s *session, resp *fleetv1.CompareFanOutResponse) {
		s.printVariants(resp.GetVariants(), resp.GetOverlaps())
		if problem := resp.GetOverlapsProblem(); problem != "" {
			s.note("It is not known which of the work changes the same lines: %s.", problem)
		}
		if !slices.ContainsFunc(resp.GetVariants(), (*fleetv1.Variant).GetKept) {
			s.hint("Choose one: fleet task keep ID --abandon-others")
		}
	})
}

func (p *program) newTaskKeep() *cobra.Command {
	req := &fleetv1.SettleFanOutRequest{}
	cmd := methodCommand(p, &cobra.Command{
		Use:   "keep ID|AGENT",
		Short: "Choose one of the tasks with the same prompt",
		Long: `Choose the work of one of the tasks that "fleet task fan-out" has queued together. It lands
like other work. With --abandon-others, the other tasks are stopped, and their work does
not land and may be removed when it is old. If the command is interrupted, repeat it.`,
		Example: `  fleet task keep 3f2a1b0c --abandon-others`,
	}, fleetv1.FleetServiceClient.SettleFanOut, req, func(s *session, resp *fleetv1.SettleFanOutResponse) {
		s.printVariants(resp.GetVariants(), nil)
		s.note("%s.", resp.GetMessage())
		s.hint("Land it: fleet task land %s", shortID(req.GetTaskId()))
	})
	cmd.Flags().BoolVar(&req.AbandonOthers, "abandon-others", false, "stop the other tasks and abandon their work")
	return cmd
}

// printVariants prints a table of the tasks of a fan-out. overlaps tells which of their work changes the same lines.
func (s *session) printVariants(all []*fleetv1.Variant, overlaps []*fleetv1.Overlap) {
	numbers := map[string]int32{}
	for _, v := range all {
		for _, id := range v.GetTaskIds() {
			numbers[id] = v.GetNumber()
		}
	}
	printList(s, all, "You may see none of the tasks.",
		column{"", valueIf(!s.quiet, "number")}, column{"ID", func(v *fleetv1.Variant) string { return s.shownID(v.GetTask().GetId()) }},
		column{"AGENT", "task.agent_name"}, column{"MODEL", "model"}, column{"STATUS", "task.status"},
		column{"WORK", func(v *fleetv1.Variant) string {
			work := ""
			if v.GetLanding() != nil {
				work = enumWords(v.GetLanding().GetState())
			}
			if v.GetKept() {
				work = strings.TrimPrefix(work+", kept", ", ")
			}
			return work
		}},
		column{"FILES", "landing.files"}, column{"LINES", func(v *fleetv1.Variant) string { return linesText(v.GetLanding()) }},
		column{"CHECKS", func(v *fleetv1.Variant) string { return checksText(v.GetChecks()) }},
		column{"COST", func(v *fleetv1.Variant) string { return costText(v.GetCostUsd()) }},
		column{"TIME", func(v *fleetv1.Variant) string {
			return shortDuration(time.Duration(v.GetRunSeconds()) * time.Second)
		}},
		column{"REVIEW", func(v *fleetv1.Variant) string {
			if v.GetReview() == nil {
				return ""
			}
			return enumWords(v.GetReview().GetVerdict())
		}},
		column{"OVERLAPS", func(v *fleetv1.Variant) string {
			var with []string
			for _, o := range overlaps {
				switch v.GetNumber() {
				case numbers[o.GetTaskId()]:
					with = append(with, fmt.Sprint(numbers[o.GetOtherTaskId()]))
				case numbers[o.GetOtherTaskId()]:
					with = append(with, fmt.Sprint(numbers[o.GetTaskId()]))
				}
			}
			return strings.Join(with, ", ")
		}})
}

// checksText returns how many of the checks passed, or "" if none has run.
func checksText(c *fleetv1.TaskChecks) string {
	if len(c.GetResults()) == 0 {
		return ""
	}
	passed := 0
	for _, r := range c.GetResults() {
		if r.GetStatus() == fleetv1.TaskCheck_passed {
			passed++
		}
	}
	return fmt.Sprintf("%d of %d passed", passed, len(c.GetResults()))
}
