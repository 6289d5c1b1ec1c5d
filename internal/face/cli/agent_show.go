package cli

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newAgentShow() *cobra.Command {
	return methodCommand(p, &cobra.Command{
		Use:   "show AGENT",
		Short: "Show one agent",
		Long: `Show everything about one agent: what it is for, what its workspace is doing and
why, where it works, and its task.`,
		Example: `  fleet agent show papi
  fleet agent show papi -o json | jq -r .agent.metadata.fleet_mcp_pull_request_url`,
	}, fleetv1.FleetServiceClient.ShowAgent, &fleetv1.ShowAgentRequest{}, func(s *session, resp *fleetv1.ShowAgentResponse) {
		s.showAgent(resp.GetAgent(), resp.GetRules())
	})
}

func (s *session) showAgent(a *fleetv1.Agent, rules []*fleetv1.AllowedRule) {
	ref := s.ref(a.GetName(), a.GetOwner())
	if s.quiet {
		s.screen.print(printable(ref) + "\n")
		return
	}
	var shares, allowedRules []string
	for _, share := range a.GetShares() {
		shares = append(shares, granteeText(share)+" ("+share.GetAccess().String()+")")
	}
	for _, r := range rules {
		if id := r.GetTaskId(); id != "" {
			allowedRules = append(allowedRules, r.GetRule()+" (in the task "+shortID(id)+")")
		} else {
			allowedRules = append(allowedRules, r.GetRule())
		}
	}
	lines := []cardLine{
		{"Name", a.GetName(), ""},
		{"Status", a.GetStatus(), ""},
		{"Waiting", valueIf(a.GetWaiting(), cell{`for an answer, see "fleet questions"`, yellow}), ""},
		{"Stalled", valueIf(a.GetStalled(), cell{"yes", yellow}), a.GetLastStep()},
		{"Collecting", valueIf(a.GetCollecting(), "the run of its task has ended, and its work is copied"), ""},
		{"State", a.GetState(), a.GetStateReason()},
		{"Task", a.GetCurrentTask().GetValue(), ""},
		{"Task id", a.GetCurrentTaskId().GetValue(), ""},
		{"Project", a.GetProject(), ""},
		{"Role", a.GetRole(), ""},
		{"Owner", a.GetOwner(), ""},
		{"Labels", labelsText(a.GetLabels()), ""},
		{"Allowed", strings.Join(allowedRules, ", "), ""},
		{"Shared with", strings.Join(shares, ", "), ""},
		{"Workspace", a.GetWorkspaceId(), ""},
		{"Place", a.GetPlace(), ""},
		{"Belongs to", cell{a.GetOtherFleet(), yellow}, `"fleet agent restart ` + ref + ` --take-over" makes it this Fleet's, and ends what runs in it`},
		{"Adopted", valueIf(a.GetAdopted(), "yes, its workspace was found at its host"), ""},
		{"Outdated", valueIf(a.GetOutdated(), cell{"yes", yellow}), `"fleet agent restart ` + ref + ` --update" gives it the newest version`},
		{"Dormant", valueIf(a.GetDormantAt() != nil, cell{"since " + s.timeText(a.GetDormantAt()), yellow}), ""},
		{"Will be deleted", cell{s.timeText(a.GetDeletionAt()), red}, ""},
		{"Stops", a.GetStopsAt(), ""},
		{"Location", a.GetLocation(), ""},
		{"Session", a.GetSessionId(), ""},
	}
	for _, l := range a.GetLinks() {
		if l.GetUrl() != a.GetLocation() {
			lines = append(lines, cardLine{l.GetName(), l.GetUrl(), ""})
		}
	}
	lines = append(lines, cardLine{"Created", a.GetCreatedAt(), ""}, cardLine{"Updated", a.GetUpdatedAt(), ""})
	for _, key := range slices.Sorted(maps.Keys(a.GetMetadata())) {
		if value := a.GetMetadata()[key]; value != a.GetSpec() && value != a.GetLocation() { // the card shows both anyway
			lines = append(lines, cardLine{upperFirst(strings.ReplaceAll(strings.TrimPrefix(key, metadataPrefix), "_", " ")), value, ""})
		}
	}
	s.screen.print(s.card(append(lines, cardLine{"Spec", a.GetSpec(), ""})...))
}

// metadataPrefix is the beginning of all keys of metadata.
const metadataPrefix = "fleet_mcp_"
