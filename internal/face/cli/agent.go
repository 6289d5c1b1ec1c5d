package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newAgent() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:     "agent",
		Aliases: []string{"agents"},
		Short:   "Create agents, look at them, start, stop and delete them",
		Long: `An agent is a worker with a name, in a workspace of its own. It does one task at
a time and keeps its workspace until it is deleted.

Create one with "fleet agent create", then give it work with "fleet task run".`,
		Example: `  fleet agent create papi --project shell --spec "Keep the build green"
  fleet agent list
  fleet agent show papi`,
	})
	cmd.AddCommand(
		calls(p.newAgentCreate(), "create_agent"),
		calls(p.newAgentList(), "list_agents"),
		calls(p.newAgentShow(), "show_agent", "agent_name"),
		calls(p.newAgentDelete(), "delete_agent", "agent_name"),
		calls(p.newAgentStart(), "start_agent", "agent_name"),
		calls(p.newAgentStop(), "stop_agent", "agent_name"),
		calls(p.newAgentRestart(), "restart_agent", "agent_name"),
		calls(p.newAgentLog(), "show_agent_log", "agent_name"),
		calls(p.newAgentRescue(), "download_agent_bundle", "agent_name"),
	)
	return cmd
}

func (p *program) newAgentList() *cobra.Command {
	var project, role, state string
	var pages paging
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the agents and what they do",
		Long: `List the agents of the fleet, by name: whether each is idle, busy or offline,
what its workspace is doing, and the task it works on.

"fleet agent show AGENT" tells more of one of them.`,
		Example: `  fleet agent list
  fleet agent list --project shell --status idle
  fleet agent list -q                       # names only
  fleet agent list -o json | jq '.agents[].name'`,
		Args:              args(""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: p.action(func(ctx context.Context, s *session, _ []string) error {
			req := &fleetv1.ListAgentsRequest{Project: project, Role: role}
			req.Page, req.PageSize = pages.values(s.cmd)
			if state != "" {
				n, ok := fleetv1.Agent_Status_value[state]
				if !ok || n == 0 {
					return usagef("the status %q does not exist; it is idle, busy or offline", state)
				}
				req.Status = fleetv1.Agent_Status(n)
			}
			resp, err := s.fleet.ListAgents(ctx, req)
			if err != nil {
				return err
			}
			s.tellPlaces(resp)
			return s.print(resp, func() { s.showAgents(resp, project+role+state != "") })
		}),
	}
	cmd.Flags().StringVar(&project, "project", "", "only agents of `PROJECT`")
	cmd.Flags().StringVar(&role, "role", "", "only agents in `ROLE`")
	cmd.Flags().StringVar(&state, "status", "", "only agents that are `STATUS`: idle, busy or offline")
	pages.addTo(cmd, "agents", "all")
	complete(cmd, "project", p.completeProjects)
	complete(cmd, "role", p.completeRoles)
	complete(cmd, "status", cobra.FixedCompletions([]string{"idle", "busy", "offline"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (s *session) showAgents(resp *fleetv1.ListAgentsResponse, filtered bool) {
	head := []string{"NAME", "STATUS", "STATE", "PROJECT", "ROLE", "TASK"}
	owners := s.output == wide || severalOwners(resp.GetAgents())
	if owners {
		head = slices.Insert(head, 1, "OWNER")
	}
	places := s.output == wide || len(resp.GetPlaces()) > 1
	if places {
		head = append(head, "PLACE")
	}
	g := newGrid(head...)
	for _, a := range resp.GetAgents() {
		row := []any{
			a.GetName(), busyCell(a.GetStatus(), a.GetStalled(), a.GetWaiting()), a.GetState(),
			a.GetProject(), a.GetRole(), a.GetCurrentTask().GetValue(),
		}
		if owners {
			row = slices.Insert(row, 1, any(a.GetOwner()))
		}
		if places {
			row = append(row, a.GetPlace())
		}
		g.row(row...)
	}
	none := `There are no agents yet. Create one: fleet agent create NAME --project PROJECT --spec "..."`
	switch {
	case resp.GetTotalCount() > 0:
		none = fmt.Sprintf("This page is beyond the last one; there are %d agents.", resp.GetTotalCount())
	case filtered:
		none = "No agent is like that. All of them: fleet agent list"
	}
	s.show(g, none)
	if n := len(resp.GetAgents()); n > 0 && n < int(resp.GetTotalCount()) {
		s.hint("%d of %d agents.", n, resp.GetTotalCount())
	}
}

func (p *program) newAgentShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show AGENT",
		Short: "Show one agent",
		Long: `Show all that is known of one agent: what it is for, what its workspace is doing
and why, where it works, and its task.`,
		Example: `  fleet agent show papi
  fleet agent show papi -o json | jq -r .agent.metadata.fleet_mcp_pull_request_url`,
		Args:              args("AGENT"),
		ValidArgsFunction: p.completeAgent,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			resp, err := s.fleet.ShowAgent(ctx, &fleetv1.ShowAgentRequest{AgentName: args[0]})
			if err != nil {
				return err
			}
			s.tellStale(resp)
			return s.print(resp, func() { s.showAgent(resp.GetAgent()) })
		}),
	}
}

// tellStale reports on standard error how old an answer is and why, if the server calls it stale.
func (s *session) tellStale(answer interface {
	GetObservedAt() *timestamppb.Timestamp
	GetStaleReason() string
},
) {
	if why := answer.GetStaleReason(); why != "" {
		s.screen.line(fmt.Sprintf("fleet: this is as it was %s ago: %s", s.age(answer.GetObservedAt()), printable(why)))
	}
}

// tellPlaces says on standard error which places do not tell how their agents are, and why.
func (s *session) tellPlaces(answer interface {
	GetObservedAt() *timestamppb.Timestamp
	GetStaleReason() string
	GetPlaces() []*fleetv1.PlaceStatus
},
) {
	if len(answer.GetPlaces()) < 2 {
		s.tellStale(answer)
		return
	}
	for _, p := range answer.GetPlaces() {
		switch {
		case p.GetOk():
		case p.GetObservedAt() == nil:
			s.screen.line(fmt.Sprintf("fleet: the agents of %s are not known yet: %s", printable(p.GetName()), printable(p.GetReason())))
		default:
			s.screen.line(fmt.Sprintf("fleet: the agents of %s are as they were %s ago: %s", printable(p.GetName()), s.age(p.GetObservedAt()), printable(p.GetReason())))
		}
	}
}

// busyCell is the status cell of an agent or a task, which may be stalled or wait for an answer.
func busyCell(status protoreflect.Enum, stalled, waiting bool) cell {
	c := statusCell(status)
	switch {
	case waiting:
		return cell{c.text + " (waiting)", yellow}
	case stalled:
		return cell{c.text + " (stalled)", yellow}
	}
	return c
}

func (s *session) showAgent(a *fleetv1.Agent) {
	if s.quiet {
		s.screen.raw(printable(a.GetName()) + "\n")
		return
	}
	colors := s.screen.onOut.colored(s.noColor)
	var c card
	c.line("Name", printable(a.GetName()))
	c.line("Status", paint(colors, colorOf(a.GetStatus()), a.GetStatus().String()))
	if a.GetWaiting() {
		c.line("Waiting", paint(colors, yellow, "for an answer, see \"fleet questions\""))
	}
	if a.GetStalled() {
		c.line("Stalled", paint(colors, yellow, "yes")+because(a.GetLastStep()))
	}
	c.line("State", paint(colors, colorOf(a.GetState()), a.GetState().String())+because(a.GetStateReason()))
	c.line("Task", printable(a.GetCurrentTask().GetValue()))
	c.line("Task id", a.GetCurrentTaskId().GetValue())
	c.line("Project", printable(a.GetProject()))
	c.line("Role", printable(a.GetRole()))
	c.line("Owner", printable(a.GetOwner()))
	c.line("Workspace", printable(a.GetWorkspaceId()))
	c.line("Place", printable(a.GetPlace()))
	c.line("Location", printable(a.GetLocation()))
	c.line("Created", s.when(a.GetCreatedAt()))
	c.line("Updated", s.when(a.GetUpdatedAt()))
	for _, key := range slices.Sorted(maps.Keys(a.GetMetadata())) {
		if label := metadataLabel(key); label != "" {
			c.line(label, printable(a.GetMetadata()[key]))
		}
	}
	c.text("Spec", a.GetSpec())
	s.screen.output(c.b.String())
}

// metadataLabel returns the label of a metadata key; empty for the specification, which is shown anyway.
func metadataLabel(key string) string {
	switch key {
	case "fleet_mcp_agent_spec":
		return ""
	case "fleet_mcp_pull_request_url":
		return "Pull request"
	case "fleet_mcp_pull_request_status":
		return "  status"
	case "fleet_mcp_pull_request_check_status":
		return "  checks"
	}
	return printable(strings.TrimPrefix(key, "fleet_mcp_"))
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + printable(reason) + ")"
}

func (p *program) newAgentLog() *cobra.Command {
	var lines int32
	cmd := &cobra.Command{
		Use:   "log AGENT",
		Short: "Show the log of an agent's workspace",
		Long: `Show how the workspace of an agent was made, started and stopped, and what its
host says about it. What the agent itself wrote is in "fleet watch --agent AGENT".`,
		Example: `  fleet agent log papi
  fleet agent log papi --lines 1000 | grep -i error`,
		Args:              args("AGENT"),
		ValidArgsFunction: p.completeAgent,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			req := &fleetv1.ShowAgentLogRequest{AgentName: args[0]}
			if s.cmd.Flags().Changed("lines") {
				req.Lines = &lines
			}
			resp, err := s.fleet.ShowAgentLog(ctx, req)
			if err != nil {
				return err
			}
			return s.print(resp, func() {
				if resp.GetTruncated() {
					s.hint("Older lines are left out; --lines N shows more.")
				}
				if len(resp.GetLines()) == 0 {
					s.hint("The log is empty.")
				}
				for _, line := range resp.GetLines() {
					s.screen.output(strings.TrimRight(line, "\r\n") + "\n")
				}
			})
		}),
	}
	cmd.Flags().Int32VarP(&lines, "lines", "n", 200, "show the last `N` lines, at most 10000")
	complete(cmd, "lines", cobra.NoFileCompletions)
	return cmd
}
