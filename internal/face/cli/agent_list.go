package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/reflect/protoreflect"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newAgentList() *cobra.Command {
	req := &fleetv1.ListAgentsRequest{}
	cmd := methodCommand(p, &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the agents and what they do",
		Long: `List the agents by name. STATUS says whether an agent can take a task, STATE what
its workspace is doing, and TASK what it works on.

With -q, an agent is NAME@OWNER unless it is certainly yours, because a name alone means
your own agent. "fleet agent show AGENT" shows one agent in detail.`,
		Example: `  fleet agent list
  fleet agent list --project shell --status idle
  fleet agent list -q                       # names only, for other commands
  fleet agent list -o json | jq '.agents[].name'`,
	}, fleetv1.FleetServiceClient.ListAgents, req, func(s *session, resp *fleetv1.ListAgentsResponse) {
		s.showAgents(resp, req)
	})
	cmd.Flags().StringVar(&req.Project, "project", "", "only agents of `PROJECT`")
	cmd.Flags().StringVar(&req.Role, "role", "", "only agents in `ROLE`")
	addEnum(cmd, &req.Status, fleetv1.Agent_Status_name, "status", "only agents that are `STATUS`: idle, busy or offline")
	addSelector(cmd, &req.Selector, "agents")
	addPages(cmd, &req.Page, &req.PageSize, "agents", "all")
	return cmd
}

func (s *session) showAgents(resp *fleetv1.ListAgentsResponse, req *fleetv1.ListAgentsRequest) {
	emptyText := `There are no agents yet. Create one: fleet agent create NAME --project PROJECT --spec "..."`
	switch {
	case resp.GetTotalCount() > 0:
		emptyText = fmt.Sprintf("This page is beyond the last one; there are %d agents.", resp.GetTotalCount())
	case req.GetProject() != "" || req.GetRole() != "" || req.GetStatus() != 0 || req.GetSelector() != "":
		emptyText = "No agent matches. See all of them: fleet agent list"
	}
	agents := resp.GetAgents()
	printList(s, agents, emptyText,
		s.nameColumn(),
		column{"OWNER", valueIf(s.output == wideFormat || hasSeveralOwners(agents), "owner")},
		column{"STATUS", func(a *fleetv1.AgentSummary) cell { return statusCell(a.GetStatus(), a) }},
		column{"STATE", "state"},
		column{"PROJECT", "project"},
		column{"ROLE", "role"},
		column{"TASK", "current_task"},
		column{"LABELS", valueIf(s.output == wideFormat, func(a *fleetv1.AgentSummary) string { return labelsText(a.GetLabels()) })},
		column{"VERSION", valueIf(slices.ContainsFunc(agents, (*fleetv1.AgentSummary).GetOutdated), versionCell)},
		column{"PLACE", valueIf(s.output == wideFormat || len(resp.GetPlaces()) > 1, "place")})
	if n := len(resp.GetAgents()); n > 0 && n < int(resp.GetTotalCount()) {
		s.hint("%d of %d agents.", n, resp.GetTotalCount())
	}
}

// versionCell returns the cell that says whether the agent has an old version of its project.
func versionCell(a *fleetv1.AgentSummary) cell {
	if a.GetOutdated() {
		return cell{"outdated", yellow}
	}
	return cell{"", defaultColor}
}

// statusCell returns the status cell of an agent or a task. If the agent waits for an answer, is stalled, or its work is being
// collected, the cell says so.
func statusCell(status protoreflect.Enum, item interface {
	GetWaiting() bool
	GetStalled() bool
	GetCollecting() bool
},
) cell {
	c := cell{enumName(status), colorOf(status)}
	switch {
	case item.GetWaiting():
		return cell{c.text + " (waiting)", yellow}
	case item.GetStalled():
		return cell{c.text + " (stalled)", yellow}
	case item.GetCollecting():
		return cell{c.text + " (collecting)", c.color}
	}
	return c
}

// hasSeveralOwners reports whether the items in the list belong to different owners.
func hasSeveralOwners[T interface{ GetOwner() string }](list []T) bool {
	return slices.ContainsFunc(list, func(x T) bool { return x.GetOwner() != list[0].GetOwner() })
}
