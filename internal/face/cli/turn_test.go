package cli

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	fleetv1 "fleet/gen/fleet/v1"
)

func partialResponse(c *fleetv1.TurnContent) *fleetv1.SendMessageResponse {
	return &fleetv1.SendMessageResponse{Type: fleetv1.SendMessageResponse_partial, Content: c}
}

// newTurn returns the responses of a turn in which an agent uses a tool and answers in two pieces.
func newTurn() []*fleetv1.SendMessageResponse {
	arguments, _ := structpb.NewValue(map[string]any{"path": "a.go"})
	return []*fleetv1.SendMessageResponse{
		partialResponse(&fleetv1.TurnContent{AgentMessage: proto.String("Let me see.")}),
		partialResponse(&fleetv1.TurnContent{ToolCall: proto.String("read_file"), Status: proto.String("started"), ToolCallId: proto.String("call-1"), Arguments: arguments}),
		partialResponse(&fleetv1.TurnContent{Usage: &fleetv1.TurnUsage{Model: "m", InputTokens: 3}}),
		partialResponse(&fleetv1.TurnContent{AgentMessage: proto.String("It is ")}),
		partialResponse(&fleetv1.TurnContent{AgentMessage: proto.String("green.\x1b]0;gotcha\a")}),
		{
			Type: fleetv1.SendMessageResponse_complete, Response: proto.String("It is green."),
			Metadata: &fleetv1.TurnMetadata{DurationMs: 2500, ToolCalls: 1, TokensUsed: 42, Model: "m", CostUsd: 0.25},
		},
	}
}

// answerMessages makes the stub answer the messages of sessions with the function.
func (s *stub) answerMessages(answer func(r *fleetv1.SendMessageRequest, out grpc.ServerStream) error) {
	s.handlers = map[string]func(proto.Message, grpc.ServerStream) error{"SendMessage": func(req proto.Message, out grpc.ServerStream) error {
		r, _ := req.(*fleetv1.SendMessageRequest)
		return answer(r, out)
	}}
}

func TestTurnIsShownAsItHappens(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	s.answerMessages(func(_ *fleetv1.SendMessageRequest, out grpc.ServerStream) error {
		for _, m := range newTurn() {
			if err := out.SendMsg(m); err != nil {
				return err
			}
		}
		return nil
	})
	server, _ := s.listen(t, "")
	const facts = "Duration 2.5 s · Tool calls 1 · Tokens used 42 · Model m · Cost $0.25\n"

	out, stderr := mustRun(t, server, "sessions", "send", "s-1", "Is it green?")
	require.Equal(t, "It is green.\n", out)
	require.Equal(t, "Let me see.\n· read_file started\nIt is green.\x1b]0;gotcha\a\n"+facts, stderr) // not sanitized, since this is not a terminal

	_, stderr, _ = runFleet(server, "sessions", "send", "s-1", "Is it green?", "-v")
	require.Contains(t, stderr, "· read_file started {\"path\":\"a.go\"}\n")

	out, stderr = mustRun(t, server, "sessions", "send", "s-1", "Is it green?", "-q")
	require.Equal(t, "It is green.\n", out)
	require.Empty(t, stderr)

	out, stderr = mustRun(t, server, "sessions", "send", "s-1", "Is it green?", "-o", "json")
	require.Contains(t, out, "{\n  \"type\": \"complete\",\n  \"response\": \"It is green.\",\n")
	require.Empty(t, stderr)
}

// TestTurnOfSeveralAgents checks that a change of the speaking agent is shown.
func TestTurnOfSeveralAgents(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	s.answerMessages(func(_ *fleetv1.SendMessageRequest, out grpc.ServerStream) error {
		for _, c := range []*fleetv1.TurnContent{
			{Agent: "root", AgentMessage: proto.String("Helper, look.\n")},
			{Agent: "helper", AgentMessage: proto.String("I see ")},
			{Agent: "helper", AgentMessage: proto.String("it.")},
			{Agent: "root", ToolCall: proto.String("think"), Status: proto.String("started")},
		} {
			if err := out.SendMsg(partialResponse(c)); err != nil {
				return err
			}
		}
		return out.SendMsg(&fleetv1.SendMessageResponse{Type: fleetv1.SendMessageResponse_complete, Response: proto.String("Seen."), Metadata: &fleetv1.TurnMetadata{}})
	})
	server, _ := s.listen(t, "")
	out, stderr := mustRun(t, server, "sessions", "send", "s-1", "Look.")
	require.Equal(t, "Seen.\n", out)
	require.Contains(t, stderr, "Helper, look.\nhelper:\nI see it.\nroot:\n· think started\n")
}

// TestTurnOnATerminal checks that the answer is shown as it arrives, and is not printed again when it is complete.
func TestTurnOnATerminal(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	s.answerMessages(func(r *fleetv1.SendMessageRequest, out grpc.ServerStream) error {
		turn := newTurn()
		if r.GetMessage() == "other" { // the final answer differs from the pieces before it
			turn[5].Response = proto.String("It is \x1b]0;gotcha\ared.")
		}
		for _, m := range turn {
			if err := out.SendMsg(m); err != nil {
				return err
			}
		}
		return nil
	})
	server, _ := s.listen(t, "")
	screen, _, wait := runOnTerminal(t, server, "", "sessions", "send", "s-1", "Is it green?")
	require.Equal(t, ExitOK, wait(), screen.String())
	require.Equal(t, 1, strings.Count(screen.String(), "It is green."), screen.String())
	require.Contains(t, screen.String(), "Let me see.\r\n")
	require.Contains(t, screen.String(), "· read_file started")
	require.Contains(t, screen.String(), "It is green.\r\n")
	require.NotContains(t, screen.String(), "gotcha")

	screen, _, wait = runOnTerminal(t, server, "", "sessions", "send", "s-1", "other")
	require.Equal(t, ExitOK, wait(), screen.String())
	require.Contains(t, screen.String(), "It is green.\r\nIt is red.\r\n")
	require.NotContains(t, screen.String(), "gotcha")
}

// TestTurnSurvivesARestart cuts the connection in the middle of a turn. The call is repeated with the same id, and
// nothing is shown twice.
func TestTurnSurvivesARestart(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	var mu sync.Mutex
	var ids []string
	var server string
	var stop func()
	s.answerMessages(func(r *fleetv1.SendMessageRequest, out grpc.ServerStream) error {
		mu.Lock()
		ids = append(ids, r.GetRequestId())
		isRetry := len(ids) > 1
		mu.Unlock()
		for i, m := range newTurn() {
			if i == 4 && !isRetry {
				go func() { // a server that crashes does not wait for its handlers
					stop()
					s.listen(t, server)
				}()
				<-out.Context().Done()
				return out.Context().Err()
			}
			if err := out.SendMsg(m); err != nil {
				return err
			}
		}
		return nil
	})
	server, stop = s.listen(t, "")
	out, stderr := mustRun(t, server, "sessions", "send", "s-1", "Is it green?")
	require.Equal(t, "It is green.\n", out)
	require.Equal(t, 1, strings.Count(stderr, "Let me see."))
	require.Equal(t, 1, strings.Count(stderr, "read_file"))
	require.Contains(t, stderr, "broke")
	require.Len(t, ids, 2)
	require.NotEmpty(t, ids[0])
	require.Equal(t, ids[0], ids[1])
}

func TestFailedTurn(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	var streamErr error
	s.answerMessages(func(_ *fleetv1.SendMessageRequest, out grpc.ServerStream) error {
		_ = out.SendMsg(newTurn()[0])
		return streamErr
	})
	server, _ := s.listen(t, "")
	for _, c := range []struct {
		err    error
		code   int
		stderr string
	}{
		{statusError(codes.ResourceExhausted, "LIMIT_REACHED", "No more messages.", nil), ExitState, "Let me see.\nfleet: No more messages.\n"},
		{status.Error(codes.Internal, "something"), ExitError, "internal error"},
		{nil, ExitError, "ended the answer before it was complete"},
	} {
		streamErr = c.err
		out, stderr, code := runFleet(server, "sessions", "send", "s-1", "x")
		require.Equal(t, c.code, code, stderr)
		require.Contains(t, stderr, c.stderr)
		require.Empty(t, out)
	}
	_, stderr, code := runFleet(server, "sessions", "send", "s-1", "x", "--timeout", "1ns")
	require.Equal(t, ExitTimeout, code, stderr)
	_, stderr, code = runFleet("127.0.0.1:1", "sessions", "send", "s-1", "x")
	require.Equal(t, ExitUnavailable, code)
	require.Contains(t, stderr, "fleet: cannot reach 127.0.0.1:1: ")
}

func TestInterruptedTurn(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	streamEnded := make(chan struct{})
	interrupted := make(chan string, 1)
	s.answerMessages(func(_ *fleetv1.SendMessageRequest, out grpc.ServerStream) error {
		_ = out.SendMsg(newTurn()[0])
		<-out.Context().Done()
		close(streamEnded)
		return out.Context().Err()
	})
	server, _ := s.listen(t, "")
	s.handlers["InterruptAgentSession"] = func(req proto.Message, out grpc.ServerStream) error {
		r, _ := req.(*fleetv1.InterruptAgentSessionRequest)
		interrupted <- r.GetAgentSessionId()
		return out.SendMsg(&fleetv1.InterruptAgentSessionResponse{Interrupted: true})
	}
	c := newCommand(server)
	code := c.start("sessions", "send", "s-1", "x")
	c.stderr.await(t, "Let me see.")
	c.signals <- os.Interrupt
	require.Equal(t, ExitInterrupted, waitForExit(t, code))
	<-streamEnded
	require.Equal(t, "s-1", <-interrupted, "the command must interrupt the turn, because the server would otherwise wait for a retry")
}
