package rpc

import (
	"context"
	"math"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/toolset/subagents"
)

// Subagents serves SubagentService.
type Subagents struct {
	fleetv1.UnimplementedSubagentServiceServer
	svc *subagents.Service
}

// NewSubagents returns the SubagentService over the toolset.
func NewSubagents(svc *subagents.Service) *Subagents { return &Subagents{svc: svc} }

// RunSubagent runs a subagent and waits for its answer.
func (s *Subagents) RunSubagent(ctx context.Context, r *fleetv1.RunSubagentRequest) (*fleetv1.RunSubagentResponse, error) {
	result, err := s.svc.Run(ctx, subagents.Request{
		Agent: r.GetAgentName(), Prompt: r.GetPrompt(), Context: r.GetContext(), RequestID: r.GetRequestId(),
	})
	if err != nil {
		return nil, err
	}
	return &fleetv1.RunSubagentResponse{
		Result: textOf(result.Text), Agent: result.Agent, DurationMs: int32Of(int(result.Duration.Milliseconds())), TaskId: result.TaskID,
		SessionId: optional(result.SessionID), CostUsd: result.CostUSD, Usage: subagentUsageOf(result.Usage), Warnings: result.Warnings,
	}, nil
}

func subagentUsageOf(u fleet.Usage) *fleetv1.SubagentUsage {
	return &fleetv1.SubagentUsage{
		Model: textOf(u.Model), InputTokens: tokensOf(u.InputTokens), OutputTokens: tokensOf(u.OutputTokens), ToolCalls: int32Of(u.ToolCalls),
	}
}

// tokensOf returns the number of tokens in the range of int32, never negative.
func tokensOf(n int64) int32 { return int32(min(max(n, 0), math.MaxInt32)) } //nolint:gosec // clamped

// ListSubagents lists the subagents.
func (s *Subagents) ListSubagents(ctx context.Context, r *fleetv1.ListSubagentsRequest) (*fleetv1.ListSubagentsResponse, error) {
	all, broken, err := s.svc.List(ctx)
	if err != nil {
		return nil, err
	}
	part, next, err := fleet.Paginate(all, cursorPageIn(r.GetCursor(), r.Limit), 0)
	if err != nil {
		return nil, err
	}
	if r.GetCursor() != "" {
		broken = nil // only the first response lists the broken subagents
	}
	return &fleetv1.ListSubagentsResponse{
		Subagents: listOf(part, subagentOf), TotalCount: int32Of(len(all)), NextCursor: optional(next),
		Broken: listOf(broken, func(b subagents.InvalidDefinition) *fleetv1.BrokenSubagent {
			return &fleetv1.BrokenSubagent{Name: textOf(b.Name), Reason: textOf(b.Reason)}
		}),
	}, nil
}

func subagentOf(l subagents.ListEntry) *fleetv1.Subagent {
	return &fleetv1.Subagent{
		Name: l.Name, Description: textOf(l.Description), AllowedCallers: l.AllowedCallers, Allowed: l.Allowed, Session: l.Session,
		Calls: l.Subagents, TimeoutMs: int32Of(int(l.Timeout.Milliseconds())), OutputFormat: l.OutputFormat, RunsIn: l.RunsIn, Warnings: l.Warnings,
	}
}
