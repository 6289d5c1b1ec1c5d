package rpc

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/toolset/providers"
)

// Providers serves ProviderService.
type Providers struct {
	fleetv1.UnimplementedProviderServiceServer
	svc *providers.Service
}

// NewProviders returns the ProviderService over the toolset.
func NewProviders(svc *providers.Service) *Providers { return &Providers{svc: svc} }

// ExecuteAgentRequest gives a request to a provider's agent and waits for the result.
func (p *Providers) ExecuteAgentRequest(ctx context.Context, r *fleetv1.ExecuteAgentRequestRequest) (*fleetv1.ExecuteAgentRequestResponse, error) {
	a, err := p.svc.Execute(ctx, providers.ExecuteRequest{
		Agent: r.GetAgentName(), Prompt: r.GetPrompt(), Context: r.GetContext().AsMap(), Capabilities: r.GetCapabilities(),
		Timeout: intIn(r.Timeout), Config: r.GetConfig().AsMap(), RequestID: r.GetRequestId(),
	})
	if err != nil {
		return nil, err
	}
	resp := &fleetv1.ExecuteAgentRequestResponse{
		Status: fleetv1.ExecutionMetadata_success, Content: textOf(a.Content), ExecutionTime: a.Duration.Seconds(),
		TokensUsed: int32Of(a.Tokens()), Warnings: listOf(a.Warnings, textOf),
		Metadata: &fleetv1.ExecutionMetadata{
			Model: textOf(a.Model), Agent: textOf(a.Agent), TaskId: a.TaskID, InputTokens: int32Of(int(a.Usage.InputTokens)),
			OutputTokens: int32Of(int(a.Usage.OutputTokens)), ToolCalls: int32Of(a.Usage.ToolCalls), Turns: int32Of(a.Turns), CostUsd: a.CostUSD,
		},
	}
	if a.Error != "" {
		resp.Status, resp.Error = fleetv1.ExecutionMetadata_error, wrapperspb.String(textOf(a.Error))
	}
	return resp, nil
}

// ListAvailableAgents lists the providers.
func (p *Providers) ListAvailableAgents(ctx context.Context, r *fleetv1.ListAvailableAgentsRequest) (*fleetv1.ListAvailableAgentsResponse, error) {
	list, err := p.svc.List(ctx, r.GetCapabilityFilter(), r.GetIncludeStatus())
	if err != nil {
		return nil, err
	}
	part, next, err := fleet.Paginate(list, cursorPageIn(r.GetCursor(), r.Limit), 0)
	if err != nil {
		return nil, err
	}
	return &fleetv1.ListAvailableAgentsResponse{
		Agents: listOf(part, availableOf), TotalCount: int32Of(len(list)), Capabilities: p.svc.Capabilities(), NextCursor: optional(next),
	}, nil
}

// ProbeAgentStatus checks whether a provider can be used.
func (p *Providers) ProbeAgentStatus(ctx context.Context, r *fleetv1.ProbeAgentStatusRequest) (*fleetv1.ProbeAgentStatusResponse, error) {
	f, err := p.svc.Probe(ctx, r.GetAgentName())
	if err != nil {
		return nil, err
	}
	return &fleetv1.ProbeAgentStatusResponse{
		Name: textOf(f.Name), Status: probeStatusOf(f.Status), Detail: textOf(f.Detail), LatencyMs: float64(f.Latency.Microseconds()) / 1000,
	}, nil
}

// RegisterToolWithAgent registers a tool for providers.
func (p *Providers) RegisterToolWithAgent(ctx context.Context, r *fleetv1.RegisterToolWithAgentRequest) (*fleetv1.RegisterToolWithAgentResponse, error) {
	spec, err := toolSpecIn(r.GetToolSpec())
	if err != nil {
		return nil, err
	}
	registered, err := p.svc.Register(ctx, providers.RegisterRequest{
		Name: r.GetToolName(), Spec: spec, Agent: r.GetAgentName(), RequestID: r.GetRequestId(),
	})
	if err != nil {
		return nil, err
	}
	return &fleetv1.RegisterToolWithAgentResponse{
		Status: fleetv1.RegisterToolWithAgentResponse_success, RegisteredWith: registered.Agents, Warnings: listOf(registered.Warnings, textOf),
		Message: fmt.Sprintf("Tool '%s' is registered with %s", r.GetToolName(), namesOrNone(registered.Agents)),
	}, nil
}

// GetRegisteredTools lists the caller's tools. If the request names an agent, it lists only those that this agent can call.
func (p *Providers) GetRegisteredTools(ctx context.Context, r *fleetv1.GetRegisteredToolsRequest) (*fleetv1.GetRegisteredToolsResponse, error) {
	all, err := p.svc.Tools(ctx, r.GetAgentName())
	if err != nil {
		return nil, err
	}
	out := &fleetv1.GetRegisteredToolsResponse{TotalCount: int32(len(all))} //nolint:gosec // at most max_tools
	for _, t := range all {
		tool := &fleetv1.RegisteredTool{
			ToolName: t.Name, AgentName: t.Agent, RegisteredWith: t.Agents, Description: textOf(t.Description), Kind: toolKindOf(t.Tool),
			CreatedAt: timeOf(t.CreatedAt), UpdatedAt: timeOf(t.UpdatedAt),
		}
		if r.GetIncludeSpec() {
			if tool.ToolSpec, err = toolSpecOf(t.Tool); err != nil {
				return nil, err
			}
		}
		out.Tools = append(out.Tools, tool)
	}
	return out, nil
}

// RemoveRegisteredTool removes one of the caller's tools.
func (p *Providers) RemoveRegisteredTool(ctx context.Context, r *fleetv1.RemoveRegisteredToolRequest) (*fleetv1.RemoveRegisteredToolResponse, error) {
	from, err := p.svc.RemoveTool(ctx, r.GetToolName(), r.GetAgentName())
	if err != nil {
		return nil, err
	}
	message := fmt.Sprintf("Tool '%s' is removed from %s", textOf(r.GetToolName()), strings.Join(from, ", "))
	if len(from) == 0 {
		message = fmt.Sprintf("There is no tool '%s' to remove", textOf(r.GetToolName()))
	}
	return &fleetv1.RemoveRegisteredToolResponse{RemovedFrom: from, Message: message}, nil
}

func toolKindOf(t fleet.Tool) fleetv1.RegisteredTool_Kind {
	switch {
	case t.HTTP != nil:
		return fleetv1.RegisteredTool_http
	case t.MCP != nil:
		return fleetv1.RegisteredTool_mcp
	}
	return fleetv1.RegisteredTool_command
}

// toolSpecOf returns the tool in the form in which it can be registered again.
func toolSpecOf(t fleet.Tool) (*structpb.Struct, error) {
	b, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	spec := &structpb.Struct{}
	if err := spec.UnmarshalJSON(b); err != nil {
		return nil, err
	}
	delete(spec.GetFields(), "name")
	return spec, nil
}

// toolSpecIn returns the specification as JSON, or nil if spec is nil.
func toolSpecIn(spec *structpb.Struct) ([]byte, error) {
	if spec == nil {
		return nil, nil
	}
	b, err := spec.MarshalJSON()
	if err != nil { // NaN and infinities, which only gRPC can send
		return nil, fleet.InvalidField("tool_spec", "tool_spec has a number that JSON does not have").WithCause(err)
	}
	return b, nil
}

func namesOrNone(names []string) string {
	if len(names) == 0 {
		return "no agent: no agent of this server accepts tools"
	}
	return strings.Join(names, ", ")
}

func availableOf(l providers.ListEntry) *fleetv1.AvailableAgent {
	a := &fleetv1.AvailableAgent{
		Name: l.Name, Capabilities: l.Capabilities, Description: textOf(l.Description), Model: textOf(l.Model),
		Kind: fleetv1.AvailableAgent_Kind(fleetv1.AvailableAgent_Kind_value[string(l.Kind)]),
	}
	if l.ProbeResult != nil {
		status, detail := probeStatusOf(l.ProbeResult.Status), textOf(l.ProbeResult.Detail)
		a.Status, a.Detail = &status, &detail
	}
	return a
}

func probeStatusOf(s providers.Status) fleetv1.AvailableAgent_Status {
	return fleetv1.AvailableAgent_Status(fleetv1.AvailableAgent_Status_value[string(s)])
}
