package mcp_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/fullstorydev/grpchan/inprocgrpc"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/facetest"
	"fleet/internal/face/mcp"
	"fleet/internal/waittest"
)

func TestMain(m *testing.M) { waittest.VerifyTestMain(m) }

// stub is a FleetService with an event log.
type stub struct {
	fleetv1.UnimplementedFleetServiceServer

	mu                sync.Mutex
	log               []*fleetv1.Event
	logGrown          chan struct{} // closed when the log grows
	showAgentMetadata metadata.MD   // the metadata of the last ShowAgent
	started           chan string   // names of the agents that RestartAgent waits for
	ended             chan error    // why RestartAgent stopped waiting
	watchEnded        chan struct{} // closed when the first WatchFleet has ended
	watchEndedOnce    sync.Once
}

func newStub() *stub {
	return &stub{logGrown: make(chan struct{}), started: make(chan string, 100), ended: make(chan error, 100), watchEnded: make(chan struct{})}
}

// connTo returns an in-process connection to the service.
func connTo(s fleetv1.FleetServiceServer) grpc.ClientConnInterface {
	c := &inprocgrpc.Channel{}
	fleetv1.RegisterFleetServiceServer(c, s)
	return facetest.KeepStreams(c)
}

// serve starts an HTTP server with the MCP handler over the service. The server stops at the end of the test. Its calls send only the
// progress of the stub, however slow the machine is.
func serve(t *testing.T, s fleetv1.FleetServiceServer, c mcp.Config) *httptest.Server {
	t.Helper()
	c.MaxSilence = waittest.Limit
	ts := httptest.NewServer(mcp.Handler(connTo(s), c))
	t.Cleanup(ts.Close)
	return ts
}

func (s *stub) logEvent(agent, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, &fleetv1.Event{Cursor: strconv.Itoa(len(s.log) + 1), Type: fleetv1.Event_agent_changed, AgentName: agent, Text: text, Time: eventTime})
	close(s.logGrown)
	s.logGrown = make(chan struct{})
}

var eventTime = timestamppb.New(time.Date(2025, 10, 29, 10, 0, 0, 0, time.UTC))

// CreateAgent logs its events, the last one just before it returns.
func (s *stub) CreateAgent(_ context.Context, q *fleetv1.CreateAgentRequest) (*fleetv1.CreateAgentResponse, error) {
	for i := range eventsOfCall {
		s.logEvent(q.GetName(), fmt.Sprintf("step %d of %s", i+1, q.GetName()))
	}
	return &fleetv1.CreateAgentResponse{Agent: agent(q.GetName()), Message: "Agent '" + q.GetName() + "' is ready."}, nil
}

func agent(name string) *fleetv1.Agent {
	return &fleetv1.Agent{Name: name, Status: fleetv1.Agent_idle, State: fleetv1.Agent_running, CreatedAt: eventTime, UpdatedAt: eventTime}
}

func (s *stub) ShowAgent(ctx context.Context, q *fleetv1.ShowAgentRequest) (*fleetv1.ShowAgentResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	s.mu.Lock()
	s.showAgentMetadata = md
	s.mu.Unlock()
	if q.GetAgentName() != "papi" {
		e, err := status.New(codes.NotFound, "There is no agent '"+q.GetAgentName()+"'.").WithDetails(
			&errdetails.ErrorInfo{Reason: "AGENT_NOT_FOUND", Domain: "fleet", Metadata: map[string]string{"agent_name": q.GetAgentName()}})
		if err != nil {
			return nil, err
		}
		return nil, e.Err()
	}
	return &fleetv1.ShowAgentResponse{Agent: agent("papi")}, nil
}

func (s *stub) ListAgents(context.Context, *fleetv1.ListAgentsRequest) (*fleetv1.ListAgentsResponse, error) {
	return &fleetv1.ListAgentsResponse{TotalCount: 1, Agents: []*fleetv1.AgentSummary{{Name: "papi", Status: fleetv1.Agent_idle, State: fleetv1.Agent_running}}}, nil
}

// RestartAgent waits until its call is cancelled.
func (s *stub) RestartAgent(ctx context.Context, q *fleetv1.RestartAgentRequest) (*fleetv1.RestartAgentResponse, error) {
	s.started <- q.GetAgentName()
	<-ctx.Done()
	s.ended <- ctx.Err()
	return nil, status.FromContextError(ctx.Err()).Err()
}

// WatchFleet sends the events after the request's cursor, each in a message of its own. If the request follows, it also sends later
// events.
func (s *stub) WatchFleet(q *fleetv1.WatchFleetRequest, out grpc.ServerStreamingServer[fleetv1.WatchFleetResponse]) error {
	defer s.watchEndedOnce.Do(func() { close(s.watchEnded) })
	s.mu.Lock()
	next, sent := len(s.log), int32(0)
	s.mu.Unlock()
	if q.GetCursor() != "now" {
		next, _ = strconv.Atoi(q.GetCursor())
	}
	for {
		s.mu.Lock()
		batch, grown := s.log[next:], s.logGrown
		s.mu.Unlock()
		for _, e := range batch {
			next++
			if q.GetAgentName() != "" && q.GetAgentName() != e.GetAgentName() {
				continue
			}
			if err := out.Send(&fleetv1.WatchFleetResponse{Events: []*fleetv1.Event{e}, Cursor: e.GetCursor()}); err != nil {
				return err
			}
			if sent++; q.MaxEvents != nil && sent == q.GetMaxEvents() {
				return nil
			}
		}
		if !q.GetFollow() {
			return out.Send(&fleetv1.WatchFleetResponse{Cursor: strconv.Itoa(next)})
		}
		select {
		case <-grown:
		case <-out.Context().Done():
			return out.Context().Err()
		}
	}
}
