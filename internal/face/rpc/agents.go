package rpc

import (
	"context"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/encoded"
	"fleet/internal/fleet"
	"fleet/internal/service"
)

// Fleet implements the gRPC service FleetService. The proto describes its methods.
type Fleet struct {
	fleetv1.UnimplementedFleetServiceServer
	svc *service.Service
}

// NewFleet returns the FleetService of the core svc.
func NewFleet(svc *service.Service) *Fleet { return &Fleet{svc: svc} }

// CreateAgent creates an agent and waits until it is ready. The response is unfinished if the agent is not ready in time.
func (f *Fleet) CreateAgent(ctx context.Context, r *fleetv1.CreateAgentRequest) (*fleetv1.CreateAgentResponse, error) {
	v, message, err := f.svc.CreateAgent(ctx, service.CreateAgentRequest{
		Name: r.GetName(), Project: r.GetProject(), Role: r.GetRole(), Spec: r.GetSpec(), Parameters: r.GetParameters(), Labels: labelsIn(r.GetLabels()), RequestID: r.GetRequestId(),
	})
	if err != nil {
		return nil, err
	}
	return &fleetv1.CreateAgentResponse{Agent: agentOf(v), Message: message, Unfinished: optional(!v.Settled())}, nil
}

// ListAgents lists agents that match the request, and the states of the places. Callers that see the same agents share the encoded rows.
func (f *Fleet) ListAgents(ctx context.Context, r *fleetv1.ListAgentsRequest) (*fleetv1.ListAgentsResponse, error) {
	l, err := f.svc.ListAgents(ctx, fleet.ListAgentsRequest{
		Project: r.GetProject(), Role: r.GetRole(), Status: fleet.Status(nameIn(r.GetStatus())), Selector: r.GetSelector(),
		PageRequest: pageIn(r.Page, r.PageSize, r.GetCursor(), r.Limit),
	})
	if err != nil {
		return nil, err
	}
	part, _ := l.Derive(func() any { return encoded.NewPart(rowsOf(l.AgentPage)) }).(*encoded.Part)
	live := &fleetv1.ListAgentsResponse{Places: listOf(l.Places, placeOf)}
	live.ObservedAt, live.StaleReason = observedOf(l.Places)
	answer := &encoded.Response{Part: part, Live: live}
	if encoded.Respond(ctx, answer) { // the face sends answer instead of live
		return live, nil
	}
	full, _ := answer.Message().(*fleetv1.ListAgentsResponse)
	return full, nil
}

// rowsOf returns the part of a ListAgentsResponse that stays the same as long as the agents do not change.
func rowsOf(r *fleet.AgentPage) *fleetv1.ListAgentsResponse {
	return &fleetv1.ListAgentsResponse{Agents: listOf(r.Agents, summaryOf), TotalCount: int32Of(r.Total), NextCursor: optional(r.Next)}
}

// ShowAgent shows an agent, with a portion of its spec from spec_offset on. The access is set only if it is less than an owner's.
func (f *Fleet) ShowAgent(ctx context.Context, r *fleetv1.ShowAgentRequest) (*fleetv1.ShowAgentResponse, error) {
	v, err := f.svc.ShowAgent(ctx, r.GetAgentName())
	if err != nil {
		return nil, err
	}
	access, err := f.svc.AccessTo(ctx, v)
	if err != nil {
		return nil, err
	}
	a := agentOf(v)
	if access != fleet.AccessOwn {
		a.Access = accessOf(access).Enum()
	}
	a.Spec, err = fleet.TextFrom(a.Spec, intIn(r.SpecOffset), "spec_offset")
	place := f.svc.PlaceStateOf(v)
	return &fleetv1.ShowAgentResponse{Agent: a, ObservedAt: timeOf(place.ObservedAt), StaleReason: optional(textOf(place.StaleReason)), Rules: listOf(v.AllowedRules(), ruleOf)}, err
}

// DeleteAgent deletes an agent and waits for that. The response describes the work of the agent that is kept.
func (f *Fleet) DeleteAgent(ctx context.Context, r *fleetv1.DeleteAgentRequest) (*fleetv1.DeleteAgentResponse, error) {
	v, message, err := f.svc.DeleteAgent(ctx, r.GetAgentName(), r.GetKeepUnsaved(), r.GetRequestId())
	if err != nil {
		return nil, err
	}
	remains, err := f.svc.Remains(ctx, v)
	if err != nil {
		return nil, err
	}
	deleted := &fleetv1.DeletedAgent{Name: v.Name, WorkspaceId: v.WorkspaceID, MayBeLost: optional(textOf(remains.LostWork))}
	if remains.Size > 0 {
		deleted.BundleSize = new(int32Of(remains.Size))
	}
	if k := f.svc.KeptOf(ctx, v); k != nil {
		deleted.Kept = keptOf(*k)
	}
	return &fleetv1.DeleteAgentResponse{Message: message, DeletedAgent: deleted, Unfinished: optional(!v.Settled())}, nil
}

// StartAgent starts an agent's workspace. The response is unfinished if the agent is not ready in time.
func (f *Fleet) StartAgent(ctx context.Context, r *fleetv1.StartAgentRequest) (*fleetv1.StartAgentResponse, error) {
	v, message, err := f.svc.StartAgent(ctx, r.GetAgentName(), r.GetRequestId())
	if err != nil {
		return nil, err
	}
	return &fleetv1.StartAgentResponse{Agent: agentOf(v), Message: message, Unfinished: optional(!v.Settled())}, nil
}

// StopAgent stops an agent's workspace. The response is unfinished if the workspace has not stopped in time.
func (f *Fleet) StopAgent(ctx context.Context, r *fleetv1.StopAgentRequest) (*fleetv1.StopAgentResponse, error) {
	v, message, err := f.svc.StopAgent(ctx, r.GetAgentName(), r.GetRequestId())
	if err != nil {
		return nil, err
	}
	return &fleetv1.StopAgentResponse{Agent: agentOf(v), Message: message, Unfinished: optional(!v.Settled())}, nil
}

// RestartAgent restarts an agent's workspace with the requested changes. The response is unfinished if the agent is not ready in time.
func (f *Fleet) RestartAgent(ctx context.Context, r *fleetv1.RestartAgentRequest) (*fleetv1.RestartAgentResponse, error) {
	v, message, err := f.svc.RestartAgent(ctx, service.RestartAgentRequest{
		Agent: r.GetAgentName(), Role: r.GetRole(), Update: r.GetUpdate(), TakeOver: r.GetTakeOver(), Parameters: r.GetParameters(), RequestID: r.GetRequestId(),
	})
	if err != nil {
		return nil, err
	}
	return &fleetv1.RestartAgentResponse{Agent: agentOf(v), Message: message, Unfinished: optional(!v.Settled())}, nil
}

// ShowAgentLog shows the last lines of the log of an agent's workspace.
func (f *Fleet) ShowAgentLog(ctx context.Context, r *fleetv1.ShowAgentLogRequest) (*fleetv1.ShowAgentLogResponse, error) {
	n := service.DefaultLogLines
	if r.Lines != nil {
		n = int(r.GetLines())
	}
	lines, truncated, err := f.svc.ShowAgentLog(ctx, r.GetAgentName(), n)
	if err != nil {
		return nil, err
	}
	for i, l := range lines {
		lines[i] = textOf(l)
	}
	return &fleetv1.ShowAgentLogResponse{Lines: lines, Truncated: truncated}, nil
}
