package cli

import (
	"strings"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newAgent() *cobra.Command {
	cmd := Group(&cobra.Command{
		Use:     "agent",
		Aliases: []string{"agents"},
		Short:   "Create agents, look at them, start, stop and delete them",
		Long: `An agent is a worker with a name and a workspace of its own. It does one task at
a time, and keeps its workspace until it is deleted.

Create one with "fleet agent create", then give it work with "fleet task run".`,
		Example: `  fleet agent create papi --project shell --spec "Keep the build green"
  fleet agent list
  fleet agent show papi`,
	})
	cmd.AddCommand(
		callsTool(p.newAgentCreate(), "create_agent"),
		p.newAgentList(),
		p.newAgentShow(),
		callsTool(p.newAgentDelete(), "delete_agent", "agent_name"),
		callsTool(p.newAgentStart(), "start_agent", "agent_name"),
		callsTool(p.newAgentStop(), "stop_agent", "agent_name"),
		callsTool(p.newAgentRestart(), "restart_agent", "agent_name"),
		callsTool(p.newAgentAttach(), "attach_agent", "agent_name"),
		p.newAgentMove(),
		p.newAgentLog(),
		callsTool(p.newAgentLabel(), "set_labels", "agent_name"),
		p.newAgentShare(),
		p.newAgentUnshare(),
		p.newAgentShares(),
		p.newAgentRemoveRule(),
		callsTool(p.newAgentRescue(), "download_agent_bundle", "agent_name"),
		callsTool(p.newAgentRestore(), "restore_agent", "agent_name"),
	)
	return cmd
}

func (p *program) newAgentLog() *cobra.Command {
	req := &fleetv1.ShowAgentLogRequest{}
	cmd := methodCommand(p, &cobra.Command{
		Use:   "log AGENT",
		Short: "Show the log of an agent's workspace",
		Long: `Show how the workspace of an agent was made, started and stopped, and what its
host reports. "fleet watch --agent AGENT" shows what the agent itself wrote.`,
		Example: `  fleet agent log papi
  fleet agent log papi --lines 1000 | grep -i error`,
	}, fleetv1.FleetServiceClient.ShowAgentLog, req, func(s *session, resp *fleetv1.ShowAgentLogResponse) {
		if resp.GetTruncated() {
			s.hint("Older lines are left out; --lines N shows more.")
		}
		if len(resp.GetLines()) == 0 {
			s.hint("The log is empty.")
		}
		for _, line := range resp.GetLines() {
			s.screen.printPart(strings.TrimRight(line, "\r\n") + "\n")
		}
	})
	cmd.Flags().VarP(optionalFlag[int32]{&req.Lines}, "lines", "n", "show the last `N` lines, at most 10000 (default 200)")
	return cmd
}

func (p *program) newAgentRemoveRule() *cobra.Command {
	req := &fleetv1.RemoveAgentRuleRequest{}
	cmd := methodCommand(p, &cobra.Command{
		Use:   "remove-rule AGENT RULE",
		Short: "Remove what an answer has allowed an agent",
		Long: `Remove a rule that somebody has allowed the agent by answering a question with
--remember. From its next task on, the agent asks again. "fleet agent show" lists the
rules.`,
		Example: `  fleet agent remove-rule papi "Bash(go test *)"`,
	}, fleetv1.FleetServiceClient.RemoveAgentRule, req, printMessage[*fleetv1.RemoveAgentRuleResponse])
	return cmd
}
