package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/toolset/lifecycle"
)

// Lifecycle serves LifecycleService.
type Lifecycle struct {
	fleetv1.UnimplementedLifecycleServiceServer
	svc *lifecycle.Service
}

// NewLifecycle returns the LifecycleService over the toolset.
func NewLifecycle(svc *lifecycle.Service) *Lifecycle { return &Lifecycle{svc: svc} }

// AgentStart starts an agent on a contract.
func (l *Lifecycle) AgentStart(ctx context.Context, r *fleetv1.AgentStartRequest) (*fleetv1.AgentStartResponse, error) {
	a, err := l.svc.Start(ctx, lifecycle.StartRequest{
		Contract: r.GetContract(), Project: r.GetProject(), Role: r.GetRole(), RequestID: r.GetRequestId(),
	})
	if err != nil {
		return nil, err
	}
	return &fleetv1.AgentStartResponse{AgentId: a.ID, TaskId: a.TaskID, Status: lifecycleStatusOf(a.Status), StartedAt: timeOf(a.StartedAt)}, nil
}

// AgentStatus returns the progress of agents.
func (l *Lifecycle) AgentStatus(ctx context.Context, r *fleetv1.AgentStatusRequest) (*fleetv1.AgentStatusResponse, error) {
	agents, err := l.svc.Status(ctx, r.GetAgentIds())
	if err != nil {
		return nil, err
	}
	return &fleetv1.AgentStatusResponse{Agents: listOf(agents, l.lifecycleAgentOf)}, nil
}

// AgentList lists a page of the agents that were started on contracts, newest first.
func (l *Lifecycle) AgentList(ctx context.Context, r *fleetv1.AgentListRequest) (*fleetv1.AgentListResponse, error) {
	list, err := l.svc.List(ctx, pageIn(r.Page, r.PageSize, r.GetCursor(), r.Limit))
	if err != nil {
		return nil, err
	}
	return &fleetv1.AgentListResponse{
		Agents: listOf(list.Agents, l.lifecycleAgentOf), TotalCount: int32Of(list.Total), Page: int32Of(list.Page),
		PageSize: int32Of(list.PageSize), TotalPages: int32Of(list.Pages), TotalIsLowerBound: optional(list.More), NextCursor: optional(list.Next),
	}, nil
}

// lifecycleAgentOf returns the progress of an agent. For an unknown agent, it has only the id and an error.
func (l *Lifecycle) lifecycleAgentOf(a *lifecycle.Agent) *fleetv1.LifecycleAgent {
	if !a.Known {
		return &fleetv1.LifecycleAgent{AgentId: textOf(a.ID), Error: new(lifecycle.NotFoundError(a.ID).Message)}
	}
	out := &fleetv1.LifecycleAgent{
		AgentId: a.ID, TaskId: optional(a.TaskID), Status: lifecycleStatusOf(a.Status).Enum(), StartedAt: timeOf(a.StartedAt), Reason: optional(textOf(a.Reason)), Preview: optional(textOf(a.Preview)),
	}
	out.CompletedAt, out.StoppedAt = endTimes(a)
	if a.Status == lifecycle.Completed {
		out.Summary = optional(textOf(a.Summary))
	}
	if a.PayloadSize > 0 {
		out.PayloadSize, out.PayloadUrl = new(int32Of(a.PayloadSize)), optional(l.svc.PayloadURL(a.ID))
	}
	if a.CostUSD > 0 {
		out.CostUsd = &a.CostUSD
	}
	out.Checks = checksOf(a.Checks)
	out.Work, out.Title = optional(textOf(a.Work)), optional(textOf(a.Title))
	if a.Completion != "" {
		out.Completion = fleetv1.LifecycleAgent_Completion(fleetv1.LifecycleAgent_Completion_value[string(a.Completion)]).Enum()
	}
	return out
}

// AgentComplete records that an agent has fulfilled its contract.
func (l *Lifecycle) AgentComplete(ctx context.Context, r *fleetv1.AgentCompleteRequest) (*fleetv1.AgentCompleteResponse, error) {
	a, err := l.svc.Complete(ctx, r.GetAgentId(), r.GetSummary(), r.GetPayload())
	if err != nil {
		return nil, err
	}
	completed, stopped := endTimes(a)
	return &fleetv1.AgentCompleteResponse{
		Status: lifecycleStatusOf(a.Status), StartedAt: timeOf(a.StartedAt), CompletedAt: completed, StoppedAt: stopped,
	}, nil
}

// AgentStop stops an agent.
func (l *Lifecycle) AgentStop(ctx context.Context, r *fleetv1.AgentStopRequest) (*fleetv1.AgentStopResponse, error) {
	a, err := l.svc.Stop(ctx, r.GetAgentId())
	if err != nil {
		return nil, err
	}
	completed, stopped := endTimes(a)
	return &fleetv1.AgentStopResponse{
		Status: lifecycleStatusOf(a.Status), StartedAt: timeOf(a.StartedAt), CompletedAt: completed, StoppedAt: stopped,
	}, nil
}

// AppendPayload appends a chunk to the payload of a running agent.
func (l *Lifecycle) AppendPayload(ctx context.Context, r *fleetv1.AppendPayloadRequest) (*fleetv1.AppendPayloadResponse, error) {
	size, err := l.svc.AppendPayload(ctx, r.GetAgentId(), r.GetChunk(), r.GetRequestId())
	if err != nil {
		return nil, err
	}
	return &fleetv1.AppendPayloadResponse{PayloadSize: int32Of(size)}, nil
}

func lifecycleStatusOf(s lifecycle.Status) fleetv1.LifecycleStatus {
	return fleetv1.LifecycleStatus(fleetv1.LifecycleStatus_value[string(s)])
}

// endTimes returns the time at which the agent ended: as completed if the agent has completed its contract, otherwise as stopped. Both
// are nil while the agent works.
func endTimes(a *lifecycle.Agent) (completed, stopped *timestamppb.Timestamp) {
	if a.Status == lifecycle.Completed {
		return timeOf(a.EndedAt), nil
	}
	return nil, timeOf(a.EndedAt)
}
