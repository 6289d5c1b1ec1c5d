package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newCredential() *cobra.Command {
	cmd := Group(&cobra.Command{
		Use:   "credential",
		Short: "See the keys and subscriptions of agents, and release them",
		Long: `A credential is a key or a subscription with which agents use their models. If one task finds
that the provider refuses the credential, or that a usage window is used up, all tasks of the
queue that need the credential wait.`,
		Example: `  fleet credential list
  fleet credential release team-max`,
	})
	cmd.AddCommand(
		methodCommand(p, &cobra.Command{
			Use: "list", Short: "List credentials and how much of their usage windows is used", Example: `  fleet credential list`,
			Long: `List the credentials of the agents that you can see: those in the configuration, and those that
tasks have used. Admins see all. A usage window is a period in which the provider limits the use
of a subscription.`,
		}, fleetv1.FleetServiceClient.ListCredentials, &fleetv1.ListCredentialsRequest{}, func(s *session, resp *fleetv1.ListCredentialsResponse) {
			printCredentials(s, resp.GetCredentials(), "Nothing is known of any credential.")
		}),
		methodCommand(p, &cobra.Command{
			Use: "release NAME", Short: "Let tasks start with a credential again", Example: `  fleet credential release team-max`,
			Long: `Let tasks start with a credential again, although the provider of the model refused it or a usage
window is used up: for example after you have changed the key or bought more. Only admins can do
this.`,
		}, fleetv1.FleetServiceClient.ReleaseCredential, &fleetv1.ReleaseCredentialRequest{}, printMessage[*fleetv1.ReleaseCredentialResponse]))
	return cmd
}

func printCredentials(s *session, all []*fleetv1.Credential, emptyText string) {
	printList(s, all, emptyText, column{"NAME", "name"},
		column{"STATE", func(c *fleetv1.Credential) string { return strings.ReplaceAll(c.GetState(), "_", " ") }},
		column{"AGENTS", "agents"}, column{"BUSY", "running"},
		column{"WINDOWS", func(c *fleetv1.Credential) string {
			var windows []string
			for _, w := range c.GetWindows() {
				text := fmt.Sprintf("%s %.0f%%", strings.ReplaceAll(printable(w.GetName()), "_", " "), 100*w.GetUsed())
				if left := w.GetResetsAt().AsTime().Sub(s.deps.Now()); w.GetResetsAt() != nil && left > 0 {
					text += ", resets in " + shortDuration(left)
				}
				windows = append(windows, text)
			}
			return strings.Join(windows, "; ")
		}},
		column{"KEPT FREE", func(c *fleetv1.Credential) string {
			if c.GetKeepFree() == 0 {
				return ""
			}
			return fmt.Sprintf("%d%%", c.GetKeepFree())
		}},
		column{"WHY", func(c *fleetv1.Credential) string {
			if c.GetHold() == nil {
				return ""
			}
			return strings.TrimSpace(c.GetHold().GetReasonCode() + " " + printable(c.GetHold().GetReason()))
		}})
}
