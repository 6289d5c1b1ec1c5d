package cli

import (
	"strings"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newOverlaps() *cobra.Command {
	req := &fleetv1.ShowOverlapsRequest{}
	cmd := methodCommand(p, &cobra.Command{
		Use:   "overlaps PROJECT",
		Short: "Show which open work changes the same lines",
		Long: `Show which work on a project that has not landed changes the same lines, and which cannot be
combined. Nothing is changed.`,
		Example: `  fleet overlaps webshop`,
	}, fleetv1.FleetServiceClient.ShowOverlaps, req, func(s *session, resp *fleetv1.ShowOverlapsResponse) {
		taskTexts := map[string]string{}
		for _, t := range resp.GetTasks() {
			taskTexts[t.GetTaskId()] = t.GetAgentName() + " " + shortID(t.GetTaskId())
		}
		printList(s, resp.GetOverlaps(), "No open work changes the same lines.",
			column{"TASK", func(o *fleetv1.Overlap) string { return taskTexts[o.GetTaskId()] }},
			column{"OTHER TASK", func(o *fleetv1.Overlap) string { return taskTexts[o.GetOtherTaskId()] }},
			column{"CONFLICT", "conflict"},
			column{"FILES", func(o *fleetv1.Overlap) string {
				var files []string
				for _, f := range o.GetFiles() {
					text := f.GetPath()
					if f.GetLines() != "" {
						text += ":" + f.GetLines()
					}
					files = append(files, text)
				}
				return strings.Join(files, " ")
			}})
		s.note("%d tasks have open work; it was compared with %s at %s.", len(resp.GetTasks()), resp.GetInto(), shortID(resp.GetSha()))
		if n := len(resp.GetMissingTaskIds()); n > 0 {
			s.note("The repository has lost the work of %d tasks: %s.", n, strings.Join(resp.GetMissingTaskIds(), ", "))
		}
	})
	cmd.Flags().StringVar(&req.Into, "into", "", "compare with this `BRANCH`")
	return cmd
}
