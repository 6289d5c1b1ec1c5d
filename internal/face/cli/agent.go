package cli

import "github.com/spf13/cobra"

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
		calls(p.newAgentCreate(), "create_agent"),
		calls(p.newAgentList(), "list_agents"),
		calls(p.newAgentShow(), "show_agent", "agent_name"),
		calls(p.newAgentDelete(), "delete_agent", "agent_name"),
		calls(p.newAgentStart(), "start_agent", "agent_name"),
		calls(p.newAgentStop(), "stop_agent", "agent_name"),
		calls(p.newAgentRestart(), "restart_agent", "agent_name"),
		calls(p.newAgentAttach(), "attach_agent", "agent_name"),
		calls(p.newAgentLog(), "show_agent_log", "agent_name"),
		calls(p.newAgentShare(), "share_agent", "agent_name"),
		calls(p.newAgentUnshare(), "unshare_agent", "agent_name"),
		calls(p.newAgentShares(), "list_agent_shares", "agent_name"),
		calls(p.newAgentRemoveRule(), "remove_agent_rule", "agent_name", "rule"),
		calls(p.newAgentRescue(), "download_agent_bundle", "agent_name"),
		calls(p.newAgentRestore(), "restore_agent", "agent_name"),
	)
	return cmd
}
