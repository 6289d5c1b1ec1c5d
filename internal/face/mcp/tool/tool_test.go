package tool_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/mcp/tool"
)

// fakeStream is a stream of messages, with the error that ends it.
type fakeStream struct {
	grpc.ClientStream
	messages []*structpb.ListValue
	err      error
}

func (f *fakeStream) Recv() (*structpb.ListValue, error) {
	if len(f.messages) == 0 {
		return nil, f.err
	}
	m := f.messages[0]
	f.messages = f.messages[1:]
	return m, nil
}

type streamCall = func(context.Context, *structpb.Struct, ...grpc.CallOption) (grpc.ServerStreamingClient[structpb.ListValue], error)

func stream(a *fakeStream) streamCall {
	return func(context.Context, *structpb.Struct, ...grpc.CallOption) (grpc.ServerStreamingClient[structpb.ListValue], error) {
		return a, nil
	}
}

func newList(texts ...string) *structpb.ListValue {
	l := &structpb.ListValue{}
	for _, s := range texts {
		l.Values = append(l.Values, structpb.NewStringValue(s))
	}
	return l
}

func stringsOf(l *structpb.ListValue) []string {
	var texts []string
	for _, v := range l.GetValues() {
		texts = append(texts, v.GetStringValue())
	}
	return texts
}

// run calls a tool with progress requested, and returns its result.
func run(t *testing.T, x tool.Tool, notify tool.Notify) *mcp.CallToolResult {
	t.Helper()
	r := mcp.CallToolRequest{Params: mcp.CallToolParams{Meta: &mcp.Meta{ProgressToken: "t"}}}
	result, err := x.Handler(tool.WithNotify(t.Context(), notify), r)
	require.NoError(t, err)
	return result
}

func textOf(r *mcp.CallToolResult) string { return r.Content[0].(mcp.TextContent).Text }

// recorder returns a Notify that appends the message of each progress notification to the slice.
func recorder(into *[]string) tool.Notify {
	return func(n mcp.JSONRPCNotification) error {
		*into = append(*into, n.Params.AdditionalFields["message"].(string))
		return nil
	}
}

func TestAStreamsMessagesAreMerged(t *testing.T) {
	t.Parallel()
	var said []string
	r := run(t, tool.Stream(tool.Spec{}, stream(&fakeStream{messages: []*structpb.ListValue{newList("a", "b"), newList(), newList("c")}, err: io.EOF}), stringsOf), recorder(&said))
	require.False(t, r.IsError)
	require.JSONEq(t, `["a","b","c"]`, textOf(r))
	require.Equal(t, []string{"a", "b", "c"}, said)
}

func TestAStreamThatFailsIsAnError(t *testing.T) {
	t.Parallel()
	var said []string
	r := run(t, tool.Stream(tool.Spec{}, stream(&fakeStream{messages: []*structpb.ListValue{newList("a")}, err: status.Error(codes.Unavailable, "gone")}), stringsOf), recorder(&said))
	require.True(t, r.IsError)
	require.Nil(t, r.StructuredContent)
	require.JSONEq(t, `{"error":"BACKEND_UNAVAILABLE","message":"gone","details":null}`, textOf(r))
	require.Equal(t, []string{"a"}, said)
}

func TestAStreamThatIsTooLongEnds(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", tool.DefaultMaxResult/3+1)
	a := &fakeStream{messages: []*structpb.ListValue{newList(large), newList(large), newList(large), newList(large)}, err: errors.New("not reached")}
	r := run(t, tool.Stream(tool.Spec{}, stream(a), stringsOf), func(mcp.JSONRPCNotification) error { return nil })
	require.False(t, r.IsError)
	require.Len(t, a.messages, 1, "the tool must stop reading when the result is full")
}

func TestAStreamEndsWhenItsClientIsGone(t *testing.T) {
	t.Parallel()
	a := &fakeStream{messages: []*structpb.ListValue{newList("a"), newList("b")}, err: io.EOF}
	r := run(t, tool.Stream(tool.Spec{}, stream(a), stringsOf), func(mcp.JSONRPCNotification) error { return errors.New("gone") })
	require.True(t, r.IsError)
	require.Len(t, a.messages, 1)
}

// recordedCall returns a method that answers with a text and sets *called.
func recordedCall(called *bool) func(context.Context, *structpb.Struct, ...grpc.CallOption) (*wrapperspb.StringValue, error) {
	return func(context.Context, *structpb.Struct, ...grpc.CallOption) (*wrapperspb.StringValue, error) {
		*called = true
		return wrapperspb.String("hello"), nil
	}
}

func agentName(*structpb.Struct) string { return "papi" }

func TestCallContinuesWithoutProgress(t *testing.T) {
	t.Parallel()
	called, watched := false, 0
	watch := func(context.Context, tool.Query, func(string, []string) error) error {
		watched++
		return errors.New("no events today")
	}
	var said []string
	r := run(t, tool.Unary(tool.Spec{}, recordedCall(&called), tool.Progress(watch, agentName)), recorder(&said))
	require.False(t, r.IsError)
	require.True(t, called)
	require.Equal(t, 1, watched)
	require.Empty(t, said)
}

// TestLastEventsAreSent checks that events that are logged during the call are sent once, even if the stream that
// follows never delivers them.
func TestLastEventsAreSent(t *testing.T) {
	t.Parallel()
	var said []string
	called := false
	log := []string{"1", "2", "3"}
	watch := func(ctx context.Context, q tool.Query, each func(string, []string) error) error {
		switch {
		case q.Cursor == "now":
			return each("0", nil)
		case q.Follow:
			if err := each("1", log[:1]); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		case q.Cursor == "3":
			return each("3", nil)
		}
		require.True(t, called)
		if q.Cursor == "0" { // the call ended before the stream began
			return each("3", log)
		}
		require.Equal(t, "1", q.Cursor)
		return each("3", log[1:])
	}
	r := run(t, tool.Unary(tool.Spec{}, recordedCall(&called), tool.Progress(watch, agentName)), recorder(&said))
	require.False(t, r.IsError)
	require.Equal(t, log, said)
}

func TestUnencodedArguments(t *testing.T) {
	t.Parallel()
	call := func(context.Context, *fleetv1.ShowAgentRequest, ...grpc.CallOption) (*fleetv1.ShowAgentResponse, error) {
		return &fleetv1.ShowAgentResponse{}, nil
	}
	x := tool.Unary(tool.Spec{}, call)
	for _, c := range []struct {
		arguments any
		want      string
	}{
		{map[string]any{"x": 1}, `unknown field \"x\"`},
		{make(chan int), `the arguments are not JSON`},
	} {
		r, err := x.Handler(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{Arguments: c.arguments}})
		require.NoError(t, err)
		require.True(t, r.IsError)
		require.Contains(t, textOf(r), c.want)
	}
}

// TestLongCallSendsHeartbeats checks that a long call sends progress regularly if the client has requested it, because clients give up
// when they receive nothing.
func TestLongCallSendsHeartbeats(t *testing.T) {
	t.Parallel()
	slow := func(_ context.Context, s *structpb.Struct, _ ...grpc.CallOption) (*structpb.Struct, error) {
		time.Sleep(30 * time.Second)
		return s, nil
	}
	texts := func(m *structpb.Struct) []string { return []string{m.GetFields()["say"].GetStringValue()} }
	last := func(m *structpb.Struct) bool { return len(m.GetFields()) == 0 }
	slowCall := func(context.Context, *structpb.Struct, ...grpc.CallOption) (grpc.ServerStreamingClient[structpb.Struct], error) {
		word := &structpb.Struct{Fields: map[string]*structpb.Value{"say": structpb.NewStringValue("word")}}
		return &slowStream{answers: []*structpb.Struct{word, word, {}}, pauses: []time.Duration{5 * time.Second, 20 * time.Second, 9 * time.Second}}, nil
	}
	for name, c := range map[string]struct {
		tool tool.Tool
		want []string
	}{
		"unary":              {tool.Unary(tool.Spec{Name: "slow"}, slow), []string{"at work for 8s", "at work for 16s", "at work for 24s"}},
		"stream with result": {tool.StreamWithResult(tool.Spec{Name: "slow"}, slowCall, texts, last), []string{"word", "at work for 13s", "at work for 21s", "word", "at work for 33s"}},
		"stream":             {tool.Stream(tool.Spec{Name: "slow"}, slowCall, texts), []string{"word", "at work for 13s", "at work for 21s", "word", "at work for 33s", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var messages []string
				ctx := tool.WithNotify(t.Context(), func(n mcp.JSONRPCNotification) error {
					text, _ := n.Params.AdditionalFields["message"].(string)
					messages = append(messages, text)
					return nil
				})
				r := mcp.CallToolRequest{}
				_, err := c.tool.Handler(ctx, r)
				require.NoError(t, err)
				require.Empty(t, messages, "no progress must be sent, because none was requested")
				r.Params.Meta = &mcp.Meta{ProgressToken: "t"}
				_, err = c.tool.Handler(ctx, r)
				require.NoError(t, err)
				require.Equal(t, c.want, messages)
			})
		})
	}
}

// slowStream is a stream with pauses between its answers.
type slowStream struct {
	grpc.ClientStream
	answers []*structpb.Struct
	pauses  []time.Duration
}

func (s *slowStream) Recv() (*structpb.Struct, error) {
	if len(s.answers) == 0 {
		return nil, io.EOF
	}
	time.Sleep(s.pauses[0])
	a := s.answers[0]
	s.answers, s.pauses = s.answers[1:], s.pauses[1:]
	return a, nil
}

// TestShorteningLeavesTheServicesMessageAlone checks that shortening an answer does not change the message of the service.
func TestShorteningLeavesTheServicesMessageAlone(t *testing.T) {
	t.Parallel()
	shared := &fleetv1.ShowAgentLogResponse{Lines: []string{strings.Repeat("a", 5000), strings.Repeat("b", 5000), "c"}}
	before := proto.Clone(shared)
	x := tool.Unary(tool.Spec{}, func(context.Context, *fleetv1.ShowAgentLogRequest, ...grpc.CallOption) (*fleetv1.ShowAgentLogResponse, error) {
		return shared, nil
	})
	r, err := x.Handler(tool.WithMaxResult(t.Context(), 4096), mcp.CallToolRequest{})
	require.NoError(t, err)
	require.False(t, r.IsError)
	require.Len(t, r.Content, 2, "the result must have the answer and a note")
	require.True(t, proto.Equal(before, shared))
}

// largeStep returns a step of about 2 KB of JSON without a long text, so that its texts cannot be shortened much.
func largeStep(cursor string) *fleetv1.Step {
	list := &fleetv1.StepTodoList{}
	for range 40 {
		list.Items = append(list.Items, &fleetv1.TodoItem{Text: "Read the code", Status: "pending"})
	}
	return &fleetv1.Step{Cursor: cursor, Detail: &fleetv1.Step_TodoList{TodoList: list}}
}

// TestCursorOfAShortenedList checks that a client that follows the cursors of shortened answers gets every item once.
func TestCursorOfAShortenedList(t *testing.T) {
	t.Parallel()
	const limit, total = 3, 7
	want := []string{"1", "2", "3", "4", "5", "6", "7"}
	steps := tool.Unary(tool.Spec{Portion: tool.Portion{Limit: "limit", Of: "steps"}}, func(_ context.Context, q *fleetv1.ListTaskStepsRequest, _ ...grpc.CallOption) (*fleetv1.ListTaskStepsResponse, error) {
		r := &fleetv1.ListTaskStepsResponse{}
		n, _ := strconv.Atoi(q.GetCursor())
		for n++; n <= total && len(r.GetSteps()) < int(cmp.Or(q.GetLimit(), limit)); n++ {
			r.Steps = append(r.Steps, largeStep(strconv.Itoa(n)))
		}
		if n <= total {
			r.NextCursor = new(strconv.Itoa(n - 1))
		}
		return r, nil
	})
	events := tool.Unary(tool.Spec{Cuts: []tool.Cut{{Field: "events", Cursor: "cursor", ItemCursor: "cursor"}}}, func(_ context.Context, q *fleetv1.WatchFleetRequest, _ ...grpc.CallOption) (*fleetv1.WatchFleetResponse, error) {
		r := &fleetv1.WatchFleetResponse{}
		n, _ := strconv.Atoi(q.GetCursor())
		for n++; n <= total && len(r.GetEvents()) < limit; n++ {
			r.Cursor = strconv.Itoa(n)
			r.Events = append(r.Events, &fleetv1.Event{Cursor: r.GetCursor(), Step: largeStep("")})
		}
		return r, nil
	})
	for name, x := range map[string]tool.Tool{"repeated with a lower limit": steps, "with the cursor of an item": events} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for cursor, calls := "", 0; calls < len(want) && len(got) < len(want); calls++ {
				r, err := x.Handler(tool.WithMaxResult(t.Context(), 4096), mcp.CallToolRequest{Params: mcp.CallToolParams{Arguments: map[string]any{"cursor": cursor}}})
				require.NoError(t, err)
				var answer struct {
					Steps, Events []struct{ Cursor string }
					NextCursor    string `json:"next_cursor"`
					Cursor        string
				}
				require.NoError(t, json.Unmarshal([]byte(textOf(r)), &answer), textOf(r))
				for _, item := range slices.Concat(answer.Steps, answer.Events) {
					got = append(got, item.Cursor)
				}
				cursor = cmp.Or(answer.NextCursor, answer.Cursor)
			}
			require.Equal(t, want, got)
		})
	}
}

// TestNoteOfTextsThatAreShortenedTwice checks the note of an answer whose texts are shortened a second time, because the
// answer was still too large after they had been shortened to 200 bytes.
func TestNoteOfTextsThatAreShortenedTwice(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 5000)
	x := tool.Unary(tool.Spec{}, func(context.Context, *fleetv1.ShowAgentLogRequest, ...grpc.CallOption) (*fleetv1.Task, error) {
		return &fleetv1.Task{Id: long, AgentName: long, Summary: long, Reason: long, Description: long, Owner: long, LastStep: &long, ConversationLost: &long}, nil
	})
	r, err := x.Handler(tool.WithMaxResult(t.Context(), 1400), mcp.CallToolRequest{})
	require.NoError(t, err)
	require.False(t, r.IsError)
	require.Len(t, r.Content, 2)
	var task fleetv1.Task
	require.NoError(t, protojson.Unmarshal([]byte(r.Content[0].(mcp.TextContent).Text), &task))
	require.Less(t, len(task.GetId()), 200)
	note := r.Content[1].(mcp.TextContent).Text
	require.Equal(t, 2, strings.Count(note, fmt.Sprintf("has its first %d of 5000 bytes", len(task.GetId()))), note)
	require.Contains(t, note, "6 more fields were shortened")
}

// TestDefs checks that a schema gets each definition that it needs once, including definitions that only other definitions
// refer to.
func TestDefs(t *testing.T) {
	t.Parallel()
	defs := tool.Defs{
		"a": "{\"properties\":{\n\"b\":{\"$ref\":\"#/$defs/b\"},\n\"a\":{\"$ref\":\"#/$defs/a\"}\n}}", "b": `{"type":"string"}`, "other": `{}`,
	}
	set := tool.NewSet("x", nil, defs, tool.Tool{Tool: mcp.Tool{
		RawInputSchema: json.RawMessage("{\n\"type\":\"object\"}"), RawOutputSchema: json.RawMessage(`{"properties":{"a":{"$ref":"#/$defs/a"},"b":{"$ref":"#/$defs/b"}}}`),
	}})
	require.Equal(t, `{"type":"object"}`, string(set.Tools[0].RawInputSchema))
	require.Equal(t, `{"properties":{"a":{"$ref":"#/$defs/a"},"b":{"$ref":"#/$defs/b"}},"$defs":{"a":{"properties":{"b":{"$ref":"#/$defs/b"},"a":{"$ref":"#/$defs/a"}}},"b":{"type":"string"}}}`,
		string(set.Tools[0].RawOutputSchema))
}
