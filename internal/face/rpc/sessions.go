package rpc

import (
	"cmp"
	"context"

	"google.golang.org/grpc"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/toolset/sessions"
)

// Sessions serves SessionService.
type Sessions struct {
	fleetv1.UnimplementedSessionServiceServer
	svc *sessions.Service
}

// NewSessions returns the SessionService over the toolset.
func NewSessions(svc *sessions.Service) *Sessions { return &Sessions{svc: svc} }

// CreateAgentSession opens a session.
func (s *Sessions) CreateAgentSession(ctx context.Context, r *fleetv1.CreateAgentSessionRequest) (*fleetv1.CreateAgentSessionResponse, error) {
	session, err := s.svc.Create(ctx, r.GetAgent(), r.GetSessionName(), r.GetRequestId(), sessions.Location{Project: r.GetProject(), Directory: r.GetDirectory()})
	if err != nil {
		return nil, err
	}
	return &fleetv1.CreateAgentSessionResponse{
		AgentSessionId: session.ID, Agent: textOf(session.Agent), Warnings: listOf(s.svc.Warnings(ctx, session.Agent), textOf),
	}, nil
}

// SendMessage sends a message to the agent of a session, and streams what the agent does until it has answered.
func (s *Sessions) SendMessage(r *fleetv1.SendMessageRequest, out grpc.ServerStreamingServer[fleetv1.SendMessageResponse]) error {
	a, err := s.svc.Send(out.Context(), r.GetAgentSessionId(), r.GetMessage(), r.GetRequestId(), func(c sessions.Content) error {
		return out.Send(&fleetv1.SendMessageResponse{Type: fleetv1.SendMessageResponse_partial, Content: contentOf(c)})
	})
	if err != nil {
		return err
	}
	return out.Send(&fleetv1.SendMessageResponse{
		Type: fleetv1.SendMessageResponse_complete, Response: new(textOf(a.Text)), Events: listOf(a.Contents, contentOf), Metadata: turnMetadataOf(a), Warnings: listOf(a.Warnings, textOf),
	})
}

// InvokeAgent sends one message to an agent without a session, and streams what the agent does until it has answered.
func (s *Sessions) InvokeAgent(r *fleetv1.InvokeAgentRequest, out grpc.ServerStreamingServer[fleetv1.InvokeAgentResponse]) error {
	location := sessions.Location{Project: r.GetProject(), Directory: r.GetDirectory()}
	a, err := s.svc.Invoke(out.Context(), r.GetAgent(), r.GetMessage(), r.GetRequestId(), location, func(c sessions.Content) error {
		return out.Send(&fleetv1.InvokeAgentResponse{Type: fleetv1.InvokeAgentResponse_partial, Content: contentOf(c)})
	})
	if err != nil {
		return err
	}
	return out.Send(&fleetv1.InvokeAgentResponse{
		Type: fleetv1.InvokeAgentResponse_complete, Response: new(textOf(a.Text)), Events: listOf(a.Contents, contentOf), Metadata: turnMetadataOf(a), Warnings: listOf(a.Warnings, textOf),
	})
}

func contentOf(c sessions.Content) *fleetv1.TurnContent {
	out := &fleetv1.TurnContent{
		Agent: textOf(c.Agent), ToolCall: optional(textOf(c.Tool)), Status: optional(c.Status), ToolCallId: optional(textOf(c.CallID)), AgentMessage: optional(textOf(c.Message)), Warning: optional(textOf(c.Warning)),
		Arguments: valueOf(c.Arguments),
	}
	if c.Result != nil {
		out.ToolResponse = &fleetv1.ToolResponse{Result: textOf(c.Result.Text), IsError: c.Result.IsError}
	}
	if c.Usage != nil {
		out.Usage = &fleetv1.TurnUsage{
			Model: textOf(c.Usage.Model), InputTokens: tokensOf(c.Usage.InputTokens), OutputTokens: tokensOf(c.Usage.OutputTokens),
		}
	}
	return out
}

func turnMetadataOf(a *sessions.Answer) *fleetv1.TurnMetadata {
	return &fleetv1.TurnMetadata{
		DurationMs: int32Of(int(a.Duration.Milliseconds())), ToolCalls: int32Of(a.Usage.ToolCalls),
		TokensUsed: tokensOf(a.Usage.InputTokens + a.Usage.OutputTokens), Model: textOf(a.Usage.Model), CostUsd: a.CostUSD, TaskId: a.TaskID,
	}
}

// sessionSources are the values of source in a request of ListAgents. An empty source means all.
var sessionSources = map[fleetv1.SessionAgentSource]fleet.DefinitionSource{
	fleetv1.SessionAgentSource_session_agent_source_unspecified: "", fleetv1.SessionAgentSource_all: "",
	fleetv1.SessionAgentSource_files: fleet.DefinitionFiles, fleetv1.SessionAgentSource_store: fleet.DefinitionStore,
	fleetv1.SessionAgentSource_fleet: fleet.DefinitionFleet,
}

// ListAgents lists the agents that sessions can use.
func (s *Sessions) ListAgents(ctx context.Context, r *fleetv1.SessionServiceListAgentsRequest) (*fleetv1.SessionServiceListAgentsResponse, error) {
	source, ok := sessionSources[r.GetSource()]
	if !ok {
		return nil, fleet.InvalidField("source", "source is %d: it must be files, store, fleet or all", r.GetSource())
	}
	all, err := s.svc.Agents(ctx, source)
	if err != nil {
		return nil, err
	}
	part, next, err := fleet.Paginate(all, cursorPageIn(r.GetCursor(), r.Limit), 0)
	if err != nil {
		return nil, err
	}
	return &fleetv1.SessionServiceListAgentsResponse{Agents: listOf(part, agentInfoOf), TotalCount: int32Of(len(all)), NextCursor: optional(next)}, nil
}

func agentInfoOf(d fleet.Definition) *fleetv1.AgentInfo {
	return &fleetv1.AgentInfo{
		Name: textOf(d.Name), Description: textOf(d.Description), Source: agentSourceOf(d.Source), Path: optional(textOf(d.Path)),
		Reference: optional(d.Reference), Digest: optional(d.Digest), Problem: optional(textOf(d.Problem)), Warnings: listOf(d.Warnings, textOf),
	}
}

// agentSourceOf returns the API's name of an agent's source. The API calls the core's source "files" "file".
func agentSourceOf(s fleet.DefinitionSource) string {
	if s == fleet.DefinitionFiles {
		return "file"
	}
	return string(s)
}

// GetAgentSessionInfo describes a session.
func (s *Sessions) GetAgentSessionInfo(ctx context.Context, r *fleetv1.GetAgentSessionInfoRequest) (*fleetv1.GetAgentSessionInfoResponse, error) {
	session, err := s.svc.Info(ctx, r.GetAgentSessionId())
	if err != nil {
		return nil, err
	}
	return copyFields(&fleetv1.GetAgentSessionInfoResponse{}, sessionOf(session)), nil
}

func sessionOf(session *sessions.Info) *fleetv1.SessionInfo {
	out := &fleetv1.SessionInfo{
		AgentSessionId: session.ID, Agent: textOf(session.Agent), Source: agentSourceOf(fleet.DefinitionSource(session.Source)), SessionName: textOf(session.Name),
		MessageCount: int32Of(session.Count), Created: timeOf(session.CreatedAt), LastUsed: timeOf(session.UsedAt), Status: fleetv1.SessionStatus_open,
		Project: optional(textOf(session.Project)), Directory: optional(textOf(session.Directory)),
		Title: textOf(cmp.Or(session.Name, session.Title)),
	}
	switch {
	case !session.ClosedAt.IsZero():
		out.Status, out.Closed, out.CloseReason = fleetv1.SessionStatus_closed, timeOf(session.ClosedAt), optional(textOf(session.CloseReason))
	case session.Working:
		out.Status = fleetv1.SessionStatus_working
	}
	return out
}

// GetAgentSessionHistory returns the last messages of a session, oldest first.
func (s *Sessions) GetAgentSessionHistory(ctx context.Context, r *fleetv1.GetAgentSessionHistoryRequest) (*fleetv1.GetAgentSessionHistoryResponse, error) {
	all, err := s.svc.History(ctx, r.GetAgentSessionId(), intIn(r.Limit))
	if err != nil {
		return nil, err
	}
	out := &fleetv1.GetAgentSessionHistoryResponse{Messages: make([]*fleetv1.SessionMessage, len(all))}
	for i, m := range all {
		out.Messages[i] = &fleetv1.SessionMessage{
			Role: m.Role, Content: textOf(m.Text), Created: timeOf(m.Time), TaskId: m.TaskID, Status: optional(string(m.Status)), Reason: optional(textOf(m.Problem)),
		}
	}
	return out, nil
}

// ListAgentSessions lists the caller's open sessions.
func (s *Sessions) ListAgentSessions(ctx context.Context, r *fleetv1.ListAgentSessionsRequest) (*fleetv1.ListAgentSessionsResponse, error) {
	all, err := s.svc.List(ctx)
	if err != nil {
		return nil, err
	}
	part, next, err := fleet.Paginate(all, cursorPageIn(r.GetCursor(), r.Limit), 0)
	if err != nil {
		return nil, err
	}
	return &fleetv1.ListAgentSessionsResponse{Sessions: listOf(part, sessionOf), TotalCount: int32Of(len(all)), NextCursor: optional(next)}, nil
}

// InterruptAgentSession interrupts the running turn of a session, if there is one, and waits for its end.
func (s *Sessions) InterruptAgentSession(ctx context.Context, r *fleetv1.InterruptAgentSessionRequest) (*fleetv1.InterruptAgentSessionResponse, error) {
	t, err := s.svc.Interrupt(ctx, r.GetAgentSessionId())
	if err != nil || t == nil {
		return &fleetv1.InterruptAgentSessionResponse{}, err
	}
	return &fleetv1.InterruptAgentSessionResponse{Interrupted: t.Status == fleet.TaskStopped, TaskId: &t.ID}, nil
}

// CloseAgentSession closes a session.
func (s *Sessions) CloseAgentSession(ctx context.Context, r *fleetv1.CloseAgentSessionRequest) (*fleetv1.CloseAgentSessionResponse, error) {
	if err := s.svc.Close(ctx, r.GetAgentSessionId()); err != nil {
		return nil, err
	}
	return &fleetv1.CloseAgentSessionResponse{Success: true}, nil
}

// PullAgent pulls an agent from a registry.
func (s *Sessions) PullAgent(ctx context.Context, r *fleetv1.PullAgentRequest) (*fleetv1.PullAgentResponse, error) {
	pulled, err := s.svc.Pull(ctx, r.GetRegistryRef())
	if err != nil {
		return nil, err
	}
	return &fleetv1.PullAgentResponse{Digest: pulled.Digest, Reference: pulled.Reference}, nil
}

// RemovePulledAgent removes an agent that was pulled.
func (s *Sessions) RemovePulledAgent(ctx context.Context, r *fleetv1.RemovePulledAgentRequest) (*fleetv1.RemovePulledAgentResponse, error) {
	removed, err := s.svc.RemovePulled(ctx, r.GetRegistryRef())
	if err != nil {
		return nil, err
	}
	return &fleetv1.RemovePulledAgentResponse{Digest: removed.Digest, Reference: removed.Reference}, nil
}
