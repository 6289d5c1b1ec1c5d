package cli

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newAgentShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show AGENT",
		Short: "Show one agent",
		Long: `Show everything about one agent: what it is for, what its workspace is doing and
why, where it works, and its task.`,
		Example: `  fleet agent show papi
  fleet agent show papi -o json | jq -r .agent.metadata.fleet_mcp_pull_request_url`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			resp, err := s.fleet.ShowAgent(ctx, &fleetv1.ShowAgentRequest{AgentName: args[0]})
			s.tellStale(resp)
			return s.print(resp, err, func() { s.showAgent(resp.GetAgent(), resp.GetRules()...) })
		}),
	}
}

func (s *session) showAgent(a *fleetv1.Agent, rules ...*fleetv1.AllowedRule) {
	if s.quiet {
		s.screen.print(printable(a.GetName()) + "\n")
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
		c.line("Stalled", paint(colors, yellow, "yes")+inParens(a.GetLastStep()))
	}
	if a.GetCollecting() {
		c.line("Collecting", "the run of its task has ended, and its work is copied")
	}
	c.line("State", paint(colors, colorOf(a.GetState()), a.GetState().String())+inParens(a.GetStateReason()))
	c.line("Task", printable(a.GetCurrentTask().GetValue()))
	c.line("Task id", a.GetCurrentTaskId().GetValue())
	c.line("Project", printable(a.GetProject()))
	c.line("Role", printable(a.GetRole()))
	c.line("Owner", printable(a.GetOwner()))
	var shared []string
	for _, share := range a.GetShares() {
		shared = append(shared, printable(grantee(share))+" ("+share.GetAccess().String()+")")
	}
	var allowed []string
	for _, r := range rules {
		text := printable(r.GetRule())
		if r.GetTaskId() != "" {
			text += " (in the task " + r.GetTaskId()[:min(len(r.GetTaskId()), shortID)] + ")"
		}
		allowed = append(allowed, text)
	}
	c.line("Allowed", strings.Join(allowed, ", "))
	c.line("Shared with", strings.Join(shared, ", "))
	c.line("Workspace", printable(a.GetWorkspaceId()))
	c.line("Place", printable(a.GetPlace()))
	if a.GetOtherFleet() != "" {
		c.line("Belongs to", paint(colors, yellow, printable(a.GetOtherFleet()))+" (\"fleet agent restart "+printable(a.GetName())+" --take-over\" makes it this Fleet's, and ends what runs in it)")
	}
	if a.GetAdopted() {
		c.line("Adopted", "yes, its workspace was found at its host")
	}
	if a.GetOutdated() {
		c.line("Outdated", paint(colors, yellow, "yes")+" (\"fleet agent restart "+printable(a.GetName())+" --update\" gives it the newest version)")
	}
	if a.GetDormantAt() != nil {
		c.line("Dormant", paint(colors, yellow, "since "+s.when(a.GetDormantAt())))
	}
	if a.GetDeletionAt() != nil {
		c.line("Is deleted", paint(colors, red, s.when(a.GetDeletionAt())))
	}
	c.line("Stops", s.when(a.GetStopsAt()))
	c.line("Location", printable(a.GetLocation()))
	c.line("Session", printable(a.GetSessionId()))
	for _, l := range a.GetLinks() {
		if l.GetUrl() != a.GetLocation() {
			c.line(printable(l.GetName()), printable(l.GetUrl()))
		}
	}
	c.line("Created", s.when(a.GetCreatedAt()))
	c.line("Updated", s.when(a.GetUpdatedAt()))
	for _, key := range slices.Sorted(maps.Keys(a.GetMetadata())) {
		if value := a.GetMetadata()[key]; value != a.GetSpec() && value != a.GetLocation() { // the card shows both anyway
			label := strings.ReplaceAll(strings.TrimPrefix(key, metadataPrefix), "_", " ")
			c.line(printable(upperFirst(label)), printable(value))
		}
	}
	c.text("Spec", a.GetSpec())
	s.screen.output(c.b.String())
}

// metadataPrefix is the beginning of all keys of metadata.
const metadataPrefix = "fleet_mcp_"

func inParens(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + printable(reason) + ")"
}
