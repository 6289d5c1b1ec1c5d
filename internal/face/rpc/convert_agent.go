package rpc

import (
	"google.golang.org/protobuf/types/known/wrapperspb"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
)

func statusOf(s fleet.Status) fleetv1.Agent_Status {
	return fleetv1.Agent_Status(fleetv1.Agent_Status_value[string(s)])
}

func stateOf(s fleet.State) fleetv1.Agent_State {
	return fleetv1.Agent_State(fleetv1.Agent_State_value[string(s)])
}

func agentOf(v *fleet.AgentView) *fleetv1.Agent {
	a := &fleetv1.Agent{
		Name: v.Name, WorkspaceId: v.WorkspaceID, Status: statusOf(v.Status()), Role: v.Role, Project: v.Project, Spec: textOf(v.Spec),
		CreatedAt: timeOf(v.CreatedAt), UpdatedAt: timeOf(v.UpdatedAt), Metadata: metadataOf(&v.Agent),
		State: stateOf(v.State), StateReason: textOf(v.StateReason), Owner: v.Owner, Location: textOf(v.Location), Place: v.Place, Waiting: optional(v.Waiting()),
		Stalled: optional(v.Stalled()), Collecting: optional(v.Collecting()), Shares: listOf(v.Shares, shareOf), Links: listOf(v.Host.Links, linkOf), Outdated: optional(v.Host.Outdated),
		OtherFleet: optional(textOf(v.Host.ForeignOwner)), Adopted: optional(v.Host.Adopted), SessionId: optional(textOf(v.SessionID)), Labels: labelsOf(v.Labels),
		StopsAt: timeOf(v.Host.StopsAt), DormantAt: timeOf(v.Host.DormantAt), DeletionAt: timeOf(v.Host.DeletionAt),
	}
	if v.Stalled() {
		a.LastStep = optional(textOf(v.Task.LastStep))
	}
	a.CurrentTask, a.CurrentTaskId = currentTaskOf(v)
	return a
}

func linkOf(l fleet.Link) *fleetv1.AgentLink {
	return &fleetv1.AgentLink{Name: textOf(l.Name), Url: textOf(l.URL)}
}

// metadataOf returns the metadata that the workspace reports. It adds the spec if the workspace does not report one.
func metadataOf(a *fleet.Agent) map[string]string {
	m := map[string]string{"fleet_mcp_agent_spec": textOf(a.Spec)}
	for k, v := range a.Metadata {
		m[textOf(k)] = textOf(v)
	}
	return m
}

// currentTaskOf returns the headline and the id of the agent's task; nil if it has none.
func currentTaskOf(v *fleet.AgentView) (headline, id *wrapperspb.StringValue) {
	if v.Task == nil {
		return nil, nil
	}
	return wrapperspb.String(textOf(v.Task.Headline())), wrapperspb.String(v.Task.ID)
}

func summaryOf(v *fleet.AgentView) *fleetv1.AgentSummary {
	s := &fleetv1.AgentSummary{
		Name: v.Name, Status: statusOf(v.Status()), State: stateOf(v.State), Role: v.Role, Project: v.Project, Owner: v.Owner,
		Place: v.Place, Waiting: optional(v.Waiting()), Stalled: optional(v.Stalled()), Collecting: optional(v.Collecting()), Outdated: optional(v.Host.Outdated),
		StateReason: optional(textOf(v.StateReason)), Labels: labelsOf(v.Labels),
	}
	s.CurrentTask, s.CurrentTaskId = currentTaskOf(v)
	return s
}
