package rpc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"fleet/internal/fleet"
	"fleet/internal/service"
)

// TestTextThatIsNotUTF8 puts invalid UTF-8 wherever an agent or its host may write text, and checks that the answer is
// still sent.
func TestTextThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	const bad = "a\xffb"
	task := &fleet.Task{ID: "t", Summary: bad, Description: bad, Reason: bad}
	agent := &fleet.AgentView{Task: task, Agent: fleet.Agent{
		Name: "papi", Spec: bad, StateReason: bad, Location: bad, Metadata: map[string]string{bad: bad},
	}}
	for name, m := range map[string]proto.Message{
		"agent":   agentOf(agent),
		"summary": summaryOf(agent),
		"task":    taskOf(task),
		"detail":  detailOf(&service.Shown{Task: task, Payload: &fleet.Portion{Bytes: []byte(bad)}, Preview: bad}),
		"event":   eventsOf([]fleet.Event{{Text: bad}})[0],
	} {
		_, err := proto.Marshal(m)
		require.NoError(t, err, name)
	}
	require.Equal(t, "a\uFFFDb", taskOf(task).GetSummary())
}

func TestError(t *testing.T) {
	t.Parallel()
	err := Error(fleet.Invalid(fleet.ReasonInvalidName, "name", "the name %q will not do", "a\xff"))
	s, ok := status.FromError(err)
	require.True(t, ok)
	require.Equal(t, codes.InvalidArgument, s.Code())
	require.Len(t, s.Details(), 2)
	_, err2 := proto.Marshal(s.Proto())
	require.NoError(t, err2)

	s, _ = status.FromError(Error(&fleet.Error{Code: fleet.Unavailable, Reason: fleet.ReasonBackendUnavailable, Message: "gone \xff", RetryAfter: time.Second}))
	require.Equal(t, codes.Unavailable, s.Code())
	require.Len(t, s.Details(), 2, "an invalid text must not remove the details")
	_, err2 = proto.Marshal(s.Proto())
	require.NoError(t, err2)
}

// TestEveryCodeIsMapped fails if an error code of the core has no gRPC code. An error with such a code would become OK.
func TestEveryCodeIsMapped(t *testing.T) {
	t.Parallel()
	for c := fleet.Internal; c <= fleet.DeadlineExceeded; c++ {
		require.NotEqual(t, codes.OK, toStatus(&fleet.Error{Code: c}).Code(), "%d", c)
	}
}
