package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/facetest"
)

// object is a JSON object.
type object map[string]any

// valueAt returns the value at the path, which consists of keys separated by dots. It returns nil if there is no value.
func (o object) valueAt(path string) any {
	var v any = map[string]any(o)
	for key := range strings.SplitSeq(path, ".") {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	return v
}

// list returns the objects in the array at the key.
func (o object) list(key string) (all []object) {
	items, _ := o[key].([]any)
	for _, item := range items {
		m, _ := item.(map[string]any)
		all = append(all, m)
	}
	return all
}

// text returns the string at the path, or "" if there is no string.
func (o object) text(path string) string {
	s, _ := o.valueAt(path).(string)
	return s
}

// problem is the error with which a server refuses a call. Over gRPC it has no details.
type problem struct {
	Reason  string         `json:"error"`
	Message string         `json:"message"`
	Details map[string]any `json:"details"`
	http    int            // the HTTP status of REST; 0 on other faces
}

func (p *problem) Error() string { return fmt.Sprintf("%s: %s %v", p.Reason, p.Message, p.Details) }

// faces maps the name of each face to the function that calls a method on it.
var faces = map[string]func(*server, context.Context, protoreflect.MethodDescriptor, string, object) (object, *problem, error){
	"grpc": (*server).callGRPC,
	"rest": (*server).callREST,
	"mcp":  (*server).callMCP,
}

// caller calls a server on one of its faces.
type caller struct {
	*server
	face string
}

// callerOn returns a caller on the face, which is a key of faces.
func (s *server) callerOn(face string) caller { return caller{s, face} }

// method returns the method of the tool, or nil if there is no such tool.
func method(tool string) protoreflect.MethodDescriptor {
	methods := fleetv1.File_fleet_v1_fleet_service_proto.Services().ByName("FleetService").Methods()
	for i := range methods.Len() {
		if facetest.ToolName(methods.Get(i).Name()) == tool {
			return methods.Get(i)
		}
	}
	return nil
}

// try calls a tool. It returns the answer, or the problem if the server refused the call.
func (c caller) try(t testing.TB, tool string, args object) (object, *problem) {
	t.Helper()
	m := method(tool)
	require.NotNil(t, m, "unknown tool %s", tool)
	ctx, cancel := context.WithTimeout(t.Context(), 2*defaultTimeout)
	defer cancel()
	answer, problem, err := faces[c.face](c.server, ctx, m, tool, args)
	require.NoError(t, err, "%s %v", tool, args)
	return answer, problem
}

// call calls a tool, and requires success.
func (c caller) call(t testing.TB, tool string, args object) object {
	t.Helper()
	answer, problem := c.try(t, tool, args)
	if problem != nil {
		require.FailNow(t, "the call failed", "%s %v: %v", tool, args, problem)
	}
	return answer
}

// requireRefusal calls a tool. It requires an error with the reason, with the words in its message, and over REST with the HTTP
// status.
func (c caller) requireRefusal(t testing.TB, tool string, args object, reason string, code int, words ...string) *problem {
	t.Helper()
	answer, problem := c.try(t, tool, args)
	require.NotNil(t, problem, "%s %v succeeded: %v", tool, args, answer)
	require.Equal(t, reason, problem.Reason, "%v", problem)
	for _, w := range words {
		require.Contains(t, problem.Message, w)
	}
	if problem.http != 0 {
		require.Equal(t, code, problem.http, "%v", problem)
	}
	return problem
}

// agent returns the result of show_agent.
func (c caller) agent(t testing.TB, name string) object {
	t.Helper()
	m, _ := c.call(t, "show_agent", object{"agent_name": name})["agent"].(map[string]any)
	return m
}

// listedAgent returns the agent from the answer of list_agents, or nil if the answer does not contain it.
func (c caller) listedAgent(t testing.TB, name string) object {
	t.Helper()
	r := c.call(t, "list_agents", object{})
	for _, a := range r.list("agents") {
		if a["name"] == name {
			return a
		}
	}
	return nil
}

// remove deletes the agent, waits until it no longer exists, and checks that its workspace has been deleted too.
func (c caller) remove(t testing.TB, name string) {
	t.Helper()
	start := time.Now()
	c.call(t, "delete_agent", object{"agent_name": name})
	within(t, defaultTimeout, name+" is deleted", func() bool { return c.listedAgent(t, name) == nil })
	t.Logf("%s deleted in %s", name, time.Since(start).Round(10*time.Millisecond))
	c.requireRefusal(t, "show_agent", object{"agent_name": name}, "AGENT_NOT_FOUND", 404, name)
	_, found := c.workspace(t, c.workspaceOf(name))
	require.False(t, found, "the workspace must be deleted")
}

// startTask starts a task and returns its id.
func (c caller) startTask(t testing.TB, agent, description string) string {
	t.Helper()
	return c.call(t, "start_agent_task", object{"agent_name": agent, "task_description": description}).text("task.id")
}

// wait waits until the task has ended and returns it.
func (c caller) wait(t testing.TB, id string) object {
	t.Helper()
	for start := time.Now(); time.Since(start) < 2*defaultTimeout; {
		r := c.call(t, "wait_tasks", object{"task_ids": []any{id}})
		if r["done"] == true {
			return r.list("tasks")[0]
		}
	}
	require.FailNow(t, "the task must end", "%v\n%v", c.call(t, "show_task", object{"task_id": id}), c.call(t, "list_agents", object{}))
	return nil
}

// events returns the events of the agent after the cursor, and the next cursor.
func (c caller) events(t testing.TB, agent, cursor string) (events []object, next string) {
	t.Helper()
	r := c.call(t, "watch_fleet", object{"agent_name": agent, "cursor": cursor})
	return r.list("events"), r.text("cursor")
}

// awaitEvents is events, but waits up to a second for new events.
func (c caller) awaitEvents(t testing.TB, agent, cursor string) (events []object, next string) {
	t.Helper()
	r := c.call(t, "watch_fleet", object{"agent_name": agent, "cursor": cursor, "follow": true, "wait_seconds": 1})
	return r.list("events"), r.text("cursor")
}

func (s *server) callGRPC(ctx context.Context, m protoreflect.MethodDescriptor, _ string, args object) (object, *problem, error) {
	data, err := json.Marshal(args)
	if err != nil {
		return nil, nil, err
	}
	request, answer := dynamicpb.NewMessage(m.Input()), dynamicpb.NewMessage(m.Output())
	if err := protojson.Unmarshal(data, request); err != nil {
		return nil, nil, err
	}
	if err := facetest.Invoke(ctx, s.grpc, m, request, answer); err != nil {
		p := &problem{Message: status.Convert(err).Message()}
		for _, d := range status.Convert(err).Details() {
			if info, ok := d.(*errdetails.ErrorInfo); ok {
				p.Reason = info.GetReason()
			}
		}
		return nil, p, nil
	}
	if data, err = (protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}).Marshal(answer); err != nil {
		return nil, nil, err
	}
	var o object
	return o, nil, json.Unmarshal(data, &o)
}

func (s *server) callREST(ctx context.Context, m protoreflect.MethodDescriptor, _ string, args object) (object, *problem, error) {
	r, err := facetest.NewRequest(ctx, s.http, m, args)
	if err != nil {
		return nil, nil, err
	}
	for key, value := range bearer(s.secret).headers() {
		r.Header.Set(key, value)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		p := &problem{http: res.StatusCode}
		return nil, p, json.NewDecoder(res.Body).Decode(p)
	}
	answer, err := decodeMerged(res.Body)
	return answer, nil, err
}

// decodeMerged parses the body. If the body is a stream, it returns the last message of the stream, with the events of all messages.
func decodeMerged(body io.Reader) (object, error) {
	all := object{}
	events, streamed := []any{}, false
	for d := json.NewDecoder(body); ; {
		var o object
		if err := d.Decode(&o); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if more, ok := o["events"].([]any); ok {
			events, streamed = append(events, more...), true
		}
		all = o
	}
	if streamed {
		all["events"] = events
	}
	return all, nil
}

func (s *server) callMCP(ctx context.Context, _ protoreflect.MethodDescriptor, tool string, args object) (object, *problem, error) {
	r := mcp.CallToolRequest{}
	r.Params.Name, r.Params.Arguments = tool, map[string]any(args)
	result, err := s.mcp.CallTool(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	if len(result.Content) != 1 {
		return nil, nil, fmt.Errorf("the content is not one text: %v", result.Content)
	}
	text, ok := mcp.AsTextContent(result.Content[0])
	if !ok {
		return nil, nil, fmt.Errorf("the content is not a text: %v", result.Content)
	}
	if result.IsError {
		p := &problem{}
		return nil, p, json.Unmarshal([]byte(text.Text), p)
	}
	var o object
	return o, nil, json.Unmarshal([]byte(text.Text), &o)
}
