package cli

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	fleetv1 "fleet/gen/fleet/v1"
)

// newToolsets returns the function that registers the stub's toolsets.
func (s *stub) newToolsets() func(grpc.ServiceRegistrar) {
	lifecycle := &stubLifecycle{agents: map[string]*stubContract{}}
	sessions := &stubSessions{s: s, sessions: map[string]*fleetv1.SessionInfo{}}
	return func(r grpc.ServiceRegistrar) {
		fleetv1.RegisterLifecycleServiceServer(r, lifecycle)
		fleetv1.RegisterProviderServiceServer(r, &stubProviders{})
		fleetv1.RegisterSubagentServiceServer(r, &stubSubagents{})
		fleetv1.RegisterSessionServiceServer(r, sessions)
	}
}

// stubLifecycle keeps contracts without agents that work on them.
type stubLifecycle struct {
	fleetv1.UnimplementedLifecycleServiceServer
	mu     sync.Mutex
	agents map[string]*stubContract
}

type stubContract struct {
	*fleetv1.LifecycleAgent
	payload string
}

func (s *stubLifecycle) find(id string) (*stubContract, error) {
	if a := s.agents[id]; a != nil {
		return a, nil
	}
	return nil, refusal(codes.NotFound, "AGENT_NOT_FOUND", fmt.Sprintf("agent %q not found", id), map[string]string{"agent_id": id}, "{agent_list} shows the agents")
}

func (s *stubLifecycle) AgentStart(context.Context, *fleetv1.AgentStartRequest) (*fleetv1.AgentStartResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &stubContract{LifecycleAgent: &fleetv1.LifecycleAgent{
		AgentId: fmt.Sprintf("c-%d", len(s.agents)+1), Status: fleetv1.LifecycleStatus_running.Enum(), StartedAt: timestamppb.Now(),
	}}
	s.agents[a.AgentId] = a
	return &fleetv1.AgentStartResponse{AgentId: a.AgentId, Status: *a.Status, StartedAt: a.StartedAt}, nil
}

func (s *stubLifecycle) AgentStatus(_ context.Context, r *fleetv1.AgentStatusRequest) (*fleetv1.AgentStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resp := &fleetv1.AgentStatusResponse{}
	for _, id := range r.GetAgentIds() {
		if a := s.agents[id]; a != nil {
			resp.Agents = append(resp.Agents, clone(a.LifecycleAgent))
		} else {
			resp.Agents = append(resp.Agents, &fleetv1.LifecycleAgent{AgentId: id, Error: proto.String("there is none")})
		}
	}
	return resp, nil
}

func (s *stubLifecycle) AgentComplete(_ context.Context, r *fleetv1.AgentCompleteRequest) (*fleetv1.AgentCompleteResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.find(r.GetAgentId())
	if err != nil {
		return nil, err
	}
	a.payload += r.GetPayload()
	a.Status, a.Summary, a.CompletedAt = fleetv1.LifecycleStatus_completed.Enum(), proto.String(r.GetSummary()), timestamppb.Now()
	a.PayloadSize, a.PayloadUrl = proto.Int32(int32(len(a.payload))), proto.String("/api/agents/"+a.AgentId+"/payload")
	return &fleetv1.AgentCompleteResponse{Status: *a.Status, StartedAt: a.StartedAt, CompletedAt: a.CompletedAt}, nil
}

func (s *stubLifecycle) AgentStop(_ context.Context, r *fleetv1.AgentStopRequest) (*fleetv1.AgentStopResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.find(r.GetAgentId())
	if err != nil {
		return nil, err
	}
	if a.GetStatus() == fleetv1.LifecycleStatus_running {
		a.Status, a.StoppedAt = fleetv1.LifecycleStatus_stopped.Enum(), timestamppb.Now()
	}
	return &fleetv1.AgentStopResponse{Status: *a.Status, StartedAt: a.StartedAt, StoppedAt: a.StoppedAt, CompletedAt: a.CompletedAt}, nil
}

func (s *stubLifecycle) AppendPayload(_ context.Context, r *fleetv1.AppendPayloadRequest) (*fleetv1.AppendPayloadResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.find(r.GetAgentId())
	if err != nil {
		return nil, err
	}
	a.payload += r.GetChunk()
	return &fleetv1.AppendPayloadResponse{PayloadSize: int32(len(a.payload))}, nil
}

func (s *stubLifecycle) DownloadPayload(r *fleetv1.DownloadPayloadRequest, out grpc.ServerStreamingServer[httpbody.HttpBody]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.find(r.GetAgentId())
	switch {
	case err != nil:
		return err
	case a.payload == "":
		return refusal(codes.NotFound, "PAYLOAD_NOT_FOUND", "There is no payload.", nil)
	}
	packed := packed(a.payload)
	for i := 0; i < len(packed) && err == nil; i += 10 {
		err = out.Send(&httpbody.HttpBody{ContentType: "text/plain", Data: packed[i:min(i+10, len(packed))]})
	}
	return err
}

func packed(text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.Bytes()
}

// stubProviders has one agent that repeats its input in capitals, and one without a key.
type stubProviders struct {
	fleetv1.UnimplementedProviderServiceServer
}

func (p *stubProviders) ListAvailableAgents(_ context.Context, r *fleetv1.ListAvailableAgentsRequest) (*fleetv1.ListAvailableAgentsResponse, error) {
	resp := &fleetv1.ListAvailableAgentsResponse{Agents: []*fleetv1.AvailableAgent{
		{Name: "claude", Description: "Models behind an API", Kind: fleetv1.AvailableAgent_api, Model: "claude-x", Capabilities: []string{"streaming", "tool_use"}},
		{Name: "shout", Description: "A program", Kind: fleetv1.AvailableAgent_cli, Capabilities: []string{"streaming"}},
	}, TotalCount: 2, Capabilities: []string{"streaming", "tool_use"}}
	if r.GetIncludeStatus() {
		resp.Agents[0].Status, resp.Agents[1].Status = fleetv1.AvailableAgent_key_missing.Enum(), fleetv1.AvailableAgent_operative.Enum()
	}
	return resp, nil
}

func (p *stubProviders) ProbeAgentStatus(_ context.Context, r *fleetv1.ProbeAgentStatusRequest) (*fleetv1.ProbeAgentStatusResponse, error) {
	return &fleetv1.ProbeAgentStatusResponse{Name: r.GetAgentName(), Status: fleetv1.AvailableAgent_operative, Detail: "it is there", LatencyMs: 1.5}, nil
}

func (p *stubProviders) ExecuteAgentRequest(_ context.Context, r *fleetv1.ExecuteAgentRequestRequest) (*fleetv1.ExecuteAgentRequestResponse, error) {
	resp := &fleetv1.ExecuteAgentRequestResponse{
		Status: fleetv1.ExecutionMetadata_success, Content: strings.ToUpper(r.GetPrompt()), ExecutionTime: 0.25,
		Metadata: &fleetv1.ExecutionMetadata{Agent: r.GetAgentName()},
	}
	if r.GetAgentName() != "shout" {
		resp.Status, resp.Content, resp.Error = fleetv1.ExecutionMetadata_error, "", wrapperspb.String("There is no key.")
	}
	return resp, nil
}

func (p *stubProviders) RegisterToolWithAgent(_ context.Context, r *fleetv1.RegisterToolWithAgentRequest) (*fleetv1.RegisterToolWithAgentResponse, error) {
	return &fleetv1.RegisterToolWithAgentResponse{
		Status: fleetv1.RegisterToolWithAgentResponse_success, RegisteredWith: []string{"claude"},
		Message: fmt.Sprintf("Registered %s with %d keys", r.GetToolName(), len(r.GetToolSpec().GetFields())),
	}, nil
}

// stubSubagents has one subagent that works and one that is broken.
type stubSubagents struct {
	fleetv1.UnimplementedSubagentServiceServer
}

func (*stubSubagents) ListSubagents(context.Context, *fleetv1.ListSubagentsRequest) (*fleetv1.ListSubagentsResponse, error) {
	return &fleetv1.ListSubagentsResponse{
		Subagents: []*fleetv1.Subagent{{Name: "reviewer", Description: "Reads code", AllowedCallers: []string{"main"}, Allowed: true, TimeoutMs: 90000, OutputFormat: "text", RunsIn: "local"}},
		Broken:    []*fleetv1.BrokenSubagent{{Name: "broken", Reason: "no name"}},
	}, nil
}

func (*stubSubagents) RunSubagent(_ context.Context, r *fleetv1.RunSubagentRequest) (*fleetv1.RunSubagentResponse, error) {
	return &fleetv1.RunSubagentResponse{
		Result: r.GetAgentName() + " read: " + r.GetPrompt() + "\n" + r.GetContext(), Agent: r.GetAgentName(), DurationMs: 1500, CostUsd: 0.25,
		Usage: &fleetv1.SubagentUsage{Model: "claude-x", InputTokens: 10},
	}, nil
}

// stubSessions holds sessions with an agent that repeats its input word by word.
type stubSessions struct {
	fleetv1.UnimplementedSessionServiceServer
	s        *stub
	mu       sync.Mutex
	sessions map[string]*fleetv1.SessionInfo
	messages []*fleetv1.SessionMessage
}

func (s *stubSessions) find(id string) (*fleetv1.SessionInfo, error) {
	if a := s.sessions[id]; a != nil {
		return a, nil
	}
	return nil, refusal(codes.NotFound, "SESSION_NOT_FOUND", fmt.Sprintf("there is no session %q", id), map[string]string{"agent_session_id": id}, "{list_agent_sessions} shows the open ones")
}

func (s *stubSessions) CreateAgentSession(_ context.Context, r *fleetv1.CreateAgentSessionRequest) (*fleetv1.CreateAgentSessionResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := fmt.Sprintf("s-%d", len(s.sessions)+1)
	s.sessions[id] = &fleetv1.SessionInfo{
		AgentSessionId: id, Agent: r.GetAgent(), Source: "fleet", SessionName: r.GetSessionName(), Status: fleetv1.SessionStatus_open,
		Created: timestamppb.Now(), LastUsed: timestamppb.Now(),
	}
	return &fleetv1.CreateAgentSessionResponse{AgentSessionId: id, Agent: r.GetAgent()}, nil
}

func (s *stubSessions) SendMessage(r *fleetv1.SendMessageRequest, out grpc.ServerStreamingServer[fleetv1.SendMessageResponse]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, err := s.find(r.GetAgentSessionId())
	if err != nil {
		return err
	}
	if s.s.answer != nil {
		return s.s.answer(r, out)
	}
	info.MessageCount += 2 // the message and its answer
	said := strings.TrimSpace(strings.TrimPrefix(r.GetMessage(), "echo "))
	s.messages = append(s.messages,
		&fleetv1.SessionMessage{Role: "user", Content: r.GetMessage(), Created: timestamppb.Now(), TaskId: "t"},
		&fleetv1.SessionMessage{Role: "assistant", Content: said, Created: timestamppb.Now(), TaskId: "t", Status: proto.String("completed")})
	for _, word := range strings.SplitAfter(said, " ") {
		err := out.Send(&fleetv1.SendMessageResponse{Type: fleetv1.SendMessageResponse_partial, Content: &fleetv1.TurnContent{AgentMessage: &word}})
		if err != nil {
			return err
		}
	}
	return out.Send(&fleetv1.SendMessageResponse{
		Type: fleetv1.SendMessageResponse_complete, Response: &said, Metadata: &fleetv1.TurnMetadata{DurationMs: 12, TokensUsed: 4},
	})
}

func (s *stubSessions) ListAgents(context.Context, *fleetv1.SessionServiceListAgentsRequest) (*fleetv1.SessionServiceListAgentsResponse, error) {
	return &fleetv1.SessionServiceListAgentsResponse{Agents: []*fleetv1.AgentInfo{{Name: "papi", Description: "Keeps the build green", Source: "fleet"}}}, nil
}

func (s *stubSessions) GetAgentSessionInfo(_ context.Context, r *fleetv1.GetAgentSessionInfoRequest) (*fleetv1.GetAgentSessionInfoResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, err := s.find(r.GetAgentSessionId())
	if err != nil {
		return nil, err
	}
	return &fleetv1.GetAgentSessionInfoResponse{
		AgentSessionId: info.AgentSessionId, Agent: info.Agent, Source: info.Source, SessionName: info.SessionName, MessageCount: info.MessageCount,
		Created: info.Created, LastUsed: info.LastUsed, Status: info.Status,
	}, nil
}

func (s *stubSessions) GetAgentSessionHistory(_ context.Context, r *fleetv1.GetAgentSessionHistoryRequest) (*fleetv1.GetAgentSessionHistoryResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.find(r.GetAgentSessionId())
	return &fleetv1.GetAgentSessionHistoryResponse{Messages: s.messages}, err
}

func (s *stubSessions) ListAgentSessions(context.Context, *fleetv1.ListAgentSessionsRequest) (*fleetv1.ListAgentSessionsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resp := &fleetv1.ListAgentSessionsResponse{}
	for _, info := range s.sessions {
		if info.Status == fleetv1.SessionStatus_open {
			resp.Sessions = append(resp.Sessions, clone(info))
		}
	}
	return resp, nil
}

func (s *stubSessions) InterruptAgentSession(_ context.Context, r *fleetv1.InterruptAgentSessionRequest) (*fleetv1.InterruptAgentSessionResponse, error) {
	if s.s.interrupted != nil {
		s.s.interrupted <- r.GetAgentSessionId()
	}
	return &fleetv1.InterruptAgentSessionResponse{Interrupted: true}, nil
}

func (s *stubSessions) CloseAgentSession(_ context.Context, r *fleetv1.CloseAgentSessionRequest) (*fleetv1.CloseAgentSessionResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, err := s.find(r.GetAgentSessionId())
	if err == nil {
		info.Status = fleetv1.SessionStatus_closed
	}
	return &fleetv1.CloseAgentSessionResponse{Success: true}, err
}
