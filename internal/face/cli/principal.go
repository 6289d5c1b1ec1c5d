package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newPrincipal() *cobra.Command {
	cmd := Group(&cobra.Command{
		Use:     "principal",
		Aliases: []string{"principals"},
		Short:   "Show the agents, the storage and the limits of each principal",
		Long: `A principal is a person or a program that calls Fleet, and owns agents.
Only admins can see them.`,
		Example: `  fleet principal list`,
	})
	cmd.AddCommand(p.newPrincipalList())
	return cmd
}

func (p *program) newPrincipalList() *cobra.Command {
	req := &fleetv1.ListPrincipalsRequest{}
	cmd := methodCommand(p, &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the principals with their agents, storage and limits",
		Long: `List the principals by name: those that have agents, a valid token, or limits of their
own. LIMITS shows the settings that limit a principal.`,
		Example: `  fleet principal list
  fleet principal list -o json`,
	}, fleetv1.FleetServiceClient.ListPrincipals, req, func(s *session, resp *fleetv1.ListPrincipalsResponse) {
		printList(s, resp.GetPrincipals(), "No principal comes after the cursor.",
			column{"NAME", "name"}, column{"AGENTS", "agents"}, column{"RUNNING", "running_tasks"}, column{"BYTES", "stored_bytes"}, column{"LIMITS", limitCell})
		if next := resp.GetNextCursor(); next != "" {
			s.hint("There are more: add --cursor %s.", next)
		}
	})
	addOptional(cmd.Flags(), &req.Limit, "limit", "show at most `N` principals, at most 1000 (default 100)")
	cmd.Flags().StringVar(&req.Cursor, "cursor", "", "continue from this `CURSOR`")
	return cmd
}

// limitCell returns the limits of the principal, in red if one of them is used up.
func limitCell(p *fleetv1.Principal) cell {
	var texts []string
	var textColor color
	for _, l := range p.GetLimits() {
		texts = append(texts, l.GetSetting()+"="+strconv.FormatInt(int64(l.GetMax()), 10))
		if l.Used != nil && l.GetUsed() >= l.GetMax() {
			textColor = red
		}
	}
	return cell{strings.Join(texts, " "), textColor}
}
