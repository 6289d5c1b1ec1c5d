package cli

import (
	"strings"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newTaskTree() *cobra.Command {
	return methodCommand(p, &cobra.Command{
		Use:   "tree ID|AGENT",
		Short: "Show the tasks that an agent has delegated, and their cost",
		Long: `Show a task, or the newest task of an agent, with all tasks that agents have delegated below
it. TREE is the cost of a task and of everything below it.

An agent may delegate if its role has delegate in the configuration of the server.
"fleet queue stop ID" stops a task of the tree, with everything below it.`,
		Example: `  fleet task tree papi
  fleet task tree 3f2a...`,
	}, fleetv1.FleetServiceClient.ShowTaskTree, &fleetv1.ShowTaskTreeRequest{}, func(s *session, resp *fleetv1.ShowTaskTreeResponse) {
		s.showTree(resp.GetTasks())
		if resp.GetTruncated() {
			s.hint("The tree has more tasks: the newest are shown, and costs are of these.")
		}
	})
}

func (s *session) showTree(tasks []*fleetv1.TreeTask) {
	topDepth := int32(0)
	if len(tasks) > 0 {
		topDepth = tasks[0].GetDepth()
	}
	printList(s, tasks, "There is no such task.",
		column{"ID", func(t *fleetv1.TreeTask) string { return s.shownID(t.GetId()) }},
		column{"STATUS", func(t *fleetv1.TreeTask) string {
			if t.GetAwaitsResults() {
				return "waits"
			}
			return t.GetStatus().String()
		}},
		column{"COST", func(t *fleetv1.TreeTask) string { return dollarsText(t.GetCostUsd()) }},
		column{"TREE", func(t *fleetv1.TreeTask) string { return dollarsText(t.GetTreeCostUsd()) }},
		column{"AGENT", "agent_name"},
		column{"TASK", func(t *fleetv1.TreeTask) string {
			text := strings.Repeat("  ", int(t.GetDepth()-topDepth)) + printable(t.GetSummary())
			if t.GetDetached() {
				text += " (detached)"
			}
			return text
		}})
}
