package cli

import (
	"cmp"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newPrune() *cobra.Command {
	req := &fleetv1.PruneWorkRequest{}
	cmd := methodCommand(p, &cobra.Command{
		Use:   "prune",
		Short: "Remove what agents have left in repositories",
		Long: `Remove what agents have left in the repositories of projects and is no longer needed: the
snapshots of their tasks, the branches of deleted agents, and the kept directories of
deleted agents. Only what is older than 30 days is removed, and only if its commits are in
other branches, in tags or at a remote, or if its work has landed or was abandoned.

With --unproved, the work of deleted agents that may exist nowhere else is removed too.
Removing refs frees no space at once: git does that later, with "git gc".

What is on the machines of other servers stays: --server says which server does it. Only
admins can do this.`,
		Example: `  fleet prune --dry-run
  fleet prune --project webshop --older-than 7d
  fleet prune --dry-run -o json | jq -r '.leftovers[] | select(.proof == "unproved") | .location'`,
	}, fleetv1.FleetServiceClient.PruneWork, req, func(s *session, resp *fleetv1.PruneWorkResponse) {
		printList(s, resp.GetLeftovers(), "Nothing can be removed.",
			column{"", valueIf(s.quiet, "location")}, column{"WHAT", "kind"}, column{"COUNT", "count"}, column{"PROJECT", "project"}, column{"AGENT", leftoverAgent}, column{"SIZE", func(l *fleetv1.Leftover) string { return sizeText(l.GetSize()) }},
			column{"AGE", (*fleetv1.Leftover).GetNewestAt}, column{"REMOVED", leftoverState}, column{"WHY", "reason"})
		if len(resp.GetLeftovers()) > 0 && !s.quiet {
			s.printResult(resp.GetMessage(), "")
		}
	})
	f := cmd.Flags()
	addOptional(f, &req.Project, "project", "only what belongs to the project with this `NAME`")
	addSeconds(cmd, "older-than", "only what is older than this `DURATION` (default 30d)", func(n int32) { req.OlderThanSeconds = &n })
	f.BoolVar(&req.Unproved, "unproved", false, "also what may exist nowhere else")
	f.BoolVar(&req.DryRun, "dry-run", false, "remove nothing, and list what would be removed")
	return cmd
}

// leftoverAgent returns the name of the leftover's agent, or the beginning of the agent's id if the name is not known.
func leftoverAgent(l *fleetv1.Leftover) string {
	return cmp.Or(l.GetAgentName(), shortID(l.GetAgentId()))
}

// leftoverState returns whether the leftover was removed, and what went wrong if its removal failed.
func leftoverState(l *fleetv1.Leftover) cell {
	switch {
	case l.GetRemoved():
		return cell{"yes", green}
	case l.GetProblem() != "":
		return cell{"no: " + printable(l.GetProblem()), red}
	}
	return cell{"no", ""}
}
