package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	fleetv1 "fleet/gen/fleet/v1"
)

// printResponse returns what a command with the flags prints for the answer, three minutes after responseTime.
func printResponse(t *testing.T, answer proto.Message, flags ...string) (out, stderr string, err error) {
	t.Helper()
	c := newCommand("")
	now := time.Date(2026, 11, 21, 5, 3, 0, 0, time.UTC)
	p := newProgram(Deps{Stdout: c.stdout, Stderr: c.stderr, Getenv: func(string) string { return "" }, Now: func() time.Time { return now }})
	require.NoError(t, p.root.ParseFlags(flags))
	s := &session{program: p, cmd: p.root, screen: p.newScreen()}
	err = s.printResponse(answer, &fleetv1.Portion{Next: "next_cursor", From: "cursor"})
	return c.stdout.String(), c.stderr.String(), err
}

var responseTime = timestamppb.New(time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC))

func TestResponsesForPeople(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		about, out, stderr, quiet string
		answer                    proto.Message
	}{{
		about: "one thing",
		answer: &fleetv1.AgentStopResponse{
			Status: fleetv1.LifecycleStatus_stopped, StartedAt: responseTime, StoppedAt: responseTime,
		},
		out: "Status        stopped\nStarted       2026-11-21T05:00:00Z (3m ago)\nStopped       2026-11-21T05:00:00Z (3m ago)\n",
	}, {
		about:  "numbers with units, and one that is 0",
		answer: &fleetv1.ProbeAgentStatusResponse{Name: "a", Status: fleetv1.AvailableAgent_operative, Detail: "it\nworks"},
		out:    "Name          a\nStatus        operative\nDetail\n  it\n  works\nLatency       0 ms\n",
		quiet:  "a\n",
	}, {
		about: "a list",
		answer: &fleetv1.ListAgentSessionsResponse{Sessions: []*fleetv1.SessionInfo{
			{AgentSessionId: "s-1", Agent: "papi", Source: "fleet", Created: responseTime, Status: fleetv1.SessionStatus_open},
			{AgentSessionId: "s-2", Agent: "sony", Source: "fleet", SessionName: "night", Title: "night", MessageCount: 3, Status: fleetv1.SessionStatus_working},
		}},
		out: "AGENT SESSION ID  AGENT  SOURCE  MESSAGE COUNT  CREATED  STATUS   TITLE\n" +
			"s-1               papi   fleet   0              3m ago   open     -\n" +
			"s-2               sony   fleet   3              -        working  night\n",
		quiet: "s-1\ns-2\n",
	}, {
		about: "the first part of a list",
		answer: &fleetv1.ListAgentSessionsResponse{
			Sessions: []*fleetv1.SessionInfo{{AgentSessionId: "s-1", Agent: "papi"}}, TotalCount: 2, NextCursor: proto.String("c-1"),
		},
		out:    "AGENT SESSION ID  AGENT  MESSAGE COUNT\ns-1               papi   0\n",
		stderr: "There are more: repeat the command with --cursor c-1\n",
		quiet:  "s-1\n",
	}, {
		about:  "an empty list",
		answer: &fleetv1.ListAgentSessionsResponse{},
		stderr: "There are no sessions.\n",
	}, {
		about: "two lists",
		answer: &fleetv1.ListSubagentsResponse{
			Subagents: []*fleetv1.Subagent{{Name: "r", AllowedCallers: []string{"main", "x"}, Allowed: true, TimeoutMs: 90000}},
			Broken:    []*fleetv1.BrokenSubagent{{Name: "b", Reason: "no name"}},
		},
		out:   "NAME  ALLOWED CALLERS  ALLOWED  SESSION  TIMEOUT\nr     main, x          yes      no       1m30s\n\nBroken:\nNAME  REASON\nb     no name\n",
		quiet: "r\n",
	}, {
		about: "a list with texts of several lines",
		answer: &fleetv1.GetAgentSessionHistoryResponse{Messages: []*fleetv1.SessionMessage{
			{Role: "user", Content: "one\ntwo", Created: responseTime}, {Role: "assistant", Content: "three", Created: responseTime, TaskId: "t-1"},
		}},
		out: "Role          user\nContent\n  one\n  two\nCreated       2026-11-21T05:00:00Z (3m ago)\n\n" +
			"Role          assistant\nContent       three\nCreated       2026-11-21T05:00:00Z (3m ago)\nTask id       t-1\n",
		quiet: "t-1\n",
	}, {
		about: "a text, and the other fields on standard error",
		answer: &fleetv1.RunSubagentResponse{
			Result: "It is green.", Agent: "r", DurationMs: 1234, CostUsd: 0.5, SessionId: proto.String("s"), Usage: &fleetv1.SubagentUsage{Model: "m", ToolCalls: 2},
		},
		out:    "It is green.\n",
		stderr: "Agent r · Duration 1.2 s · Session id s · Cost $0.50 · Model m · Tool calls 2\n",
		quiet:  "It is green.\n",
	}, {
		about: "a message, and the other fields on standard error",
		answer: &fleetv1.RegisterToolWithAgentResponse{
			Status: fleetv1.RegisterToolWithAgentResponse_success, RegisteredWith: []string{"a", "b"}, Message: "Done.", Warnings: []string{"It was there."},
		},
		out:    "Done.\n",
		stderr: "Warnings It was there.\n",
		quiet:  "Done.\n",
	}} {
		out, stderr, err := printResponse(t, c.answer)
		require.NoError(t, err, c.about)
		require.Equal(t, c.out, out, c.about)
		require.Equal(t, c.stderr, stderr, c.about)
		out, stderr, err = printResponse(t, c.answer, "-q")
		require.NoError(t, err, c.about)
		require.Equal(t, c.quiet, out, c.about)
		require.Empty(t, stderr, c.about)
	}
}

// TestFailedResponse checks that a failed answer is printed like any other answer, and that it sets the exit code.
func TestFailedResponse(t *testing.T) {
	t.Parallel()
	answer := &fleetv1.ExecuteAgentRequestResponse{
		Status: fleetv1.ExecutionMetadata_error, Content: "Half of", Error: wrapperspb.String("It took too long."), Metadata: &fleetv1.ExecutionMetadata{Agent: "a"},
	}
	out, stderr, err := printResponse(t, answer)
	require.Equal(t, "Half of\n", out)
	require.Equal(t, "Agent a\n", stderr)
	require.EqualError(t, err, "the request failed: It took too long")
	require.Equal(t, ExitFailed, newProgram(Deps{}).explain(t.Context(), err, Target{}).code)
	out, _, err = printResponse(t, answer, "-o", "json")
	require.Error(t, err)
	require.Contains(t, out, `"error": "It took too long.",`)
	require.NoError(t, failureOf((&fleetv1.ExecuteAgentRequestResponse{Status: fleetv1.ExecutionMetadata_success}).ProtoReflect()))
}

// TestResponsesAreSanitized checks that escape sequences in agents' texts are not printed.
func TestResponsesAreSanitized(t *testing.T) {
	t.Parallel()
	const evil = "a\x1b]0;title\a\x1b[2Jb\u009b31mc\u202ed"
	details, err := structpb.NewStruct(map[string]any{"key": evil})
	require.NoError(t, err)
	for _, answer := range []proto.Message{
		&fleetv1.ProbeAgentStatusResponse{Name: evil, Detail: evil + "\n" + evil},
		&fleetv1.ListSubagentsResponse{Subagents: []*fleetv1.Subagent{{Name: evil, AllowedCallers: []string{evil}}}},
		&fleetv1.GetAgentSessionHistoryResponse{Messages: []*fleetv1.SessionMessage{{Content: evil + "\nx"}}},
		&fleetv1.RegisterToolWithAgentRequest{ToolSpec: details},
	} {
		for _, flags := range [][]string{nil, {"-q"}} {
			out, _, err := printResponse(t, answer, flags...)
			require.NoError(t, err)
			require.NotContains(t, out, "\x1b")
			require.NotContains(t, out, "\u009b")
			require.NotContains(t, out, "\u202e")
		}
	}
}
