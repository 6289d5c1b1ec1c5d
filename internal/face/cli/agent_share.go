package cli

import (
	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newAgentShare() *cobra.Command {
	req := &fleetv1.ShareAgentRequest{Access: fleetv1.Share_view}
	cmd := methodCommand(p, &cobra.Command{
		Use:   "share AGENT",
		Short: "Share an agent with a person or a group",
		Long: `Share an agent with a person or a group. With access "view" they see it, its tasks,
their output and results. With access "run" they also start and stop tasks, send
messages and answer questions. Sharing again with other access replaces the share.

A person who has an agent with the same name calls the shared one AGENT@OWNER.`,
		Example: `  fleet agent share papi --person bob
  fleet agent share papi --group oidc:ops --access run`,
	}, fleetv1.FleetServiceClient.ShareAgent, req, printMessage[*fleetv1.ShareAgentResponse])
	addGrantee(cmd, &req.Person, &req.Group)
	addEnum(cmd, &req.Access, fleetv1.Share_Access_name, "access", "give them `ACCESS`: view or run")
	return cmd
}

func (p *program) newAgentUnshare() *cobra.Command {
	req := &fleetv1.UnshareAgentRequest{}
	cmd := methodCommand(p, &cobra.Command{
		Use:   "unshare AGENT",
		Short: "End the sharing of an agent with a person or a group",
		Long: `End the sharing of an agent with a person or a group. Their open watches of the
agent end at once. Tasks that they have started continue; "fleet task stop AGENT"
stops the running task.`,
		Example: `  fleet agent unshare papi --group oidc:ops`,
	}, fleetv1.FleetServiceClient.UnshareAgent, req, printMessage[*fleetv1.UnshareAgentResponse])
	addGrantee(cmd, &req.Person, &req.Group)
	return cmd
}

// addGrantee adds the flags that name a person or a group.
func addGrantee(cmd *cobra.Command, person, group *string) {
	cmd.Flags().StringVar(person, "person", "", "the person with this `NAME`")
	cmd.Flags().StringVar(group, "group", "", "the group with this `NAME`")
}

func (p *program) newAgentShares() *cobra.Command {
	return methodCommand(p, &cobra.Command{
		Use:     "shares AGENT",
		Short:   "List with whom an agent is shared",
		Long:    `List the people and groups with whom an agent is shared, and what they may do.`,
		Example: `  fleet agent shares papi`,
	}, fleetv1.FleetServiceClient.ListAgentShares, &fleetv1.ListAgentSharesRequest{}, func(s *session, resp *fleetv1.ListAgentSharesResponse) {
		printList(s, resp.GetShares(), "The agent is shared with nobody. Share it: fleet agent share "+printable(s.cmd.Flags().Arg(0))+" --person NAME",
			column{"WITH", granteeText}, column{"ACCESS", "access"}, column{"BY", "shared_by"}, column{"AGE", (*fleetv1.Share).GetSharedAt})
	})
}

// granteeText returns the person or the group of the share.
func granteeText(s *fleetv1.Share) string {
	if s.GetGroup() != "" {
		return "group " + s.GetGroup()
	}
	return s.GetPerson()
}
