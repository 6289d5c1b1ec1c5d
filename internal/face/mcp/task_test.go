package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/mcp"
)

// taskID is the id of the stub's task.
const taskID = "3f0e7c52-1f2a-4a6e-8c1b-2d9a0b7c5e11"

// taskStub is a FleetService with one task.
type taskStub struct {
	fleetv1.UnimplementedFleetServiceServer

	mu            sync.Mutex
	task          *fleetv1.TaskDetail
	questions     []*fleetv1.Question
	answers       []string
	stops         int
	callerIsAgent bool
	running       chan struct{} // closed when a call of RunTask is detached
	detach        chan struct{} // if not nil: RunTask answers a detached call when it is closed
	stopped       chan struct{} // closed when the task is stopped
	ended         chan struct{} // if not nil: RunTask waits until ended is closed, and no question is asked before RunTask waits
	requestIDs    []string      // the request ids of RunTask
	waiting       chan struct{} // closed when RunTask waits for ended
	markRunning   func()        // closes running
	markWaiting   func()        // closes waiting
	markStopped   func()        // closes stopped
}

func newTaskStub() *taskStub {
	s := &taskStub{running: make(chan struct{}), waiting: make(chan struct{}), stopped: make(chan struct{}), task: &fleetv1.TaskDetail{
		Id: taskID, AgentName: "papi", Status: fleetv1.Task_pending, Description: "Do it", Summary: "Do it", CreatedAt: eventTime,
		Queue: &fleetv1.Queued{Waits: []*fleetv1.Wait{{Reason: "agent_busy", Text: "papi works on another task"}}},
	}}
	s.markRunning, s.markWaiting, s.markStopped = sync.OnceFunc(func() { close(s.running) }), sync.OnceFunc(func() { close(s.waiting) }), sync.OnceFunc(func() { close(s.stopped) })
	return s
}

// serve starts a server over the stub, and returns the URL of its endpoint.
func (s *taskStub) serve(t *testing.T) string { return serve(t, s, mcp.Config{}).URL + "/mcp" }

// set changes the task.
func (s *taskStub) set(change func(*fleetv1.TaskDetail)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.task)
}

// RunTask answers a detached call with the pending task, and any other call with the completed task. It ignores that the call of an
// agent is detached, as the server does.
func (s *taskStub) RunTask(q *fleetv1.RunTaskRequest, out grpc.ServerStreamingServer[fleetv1.RunTaskResponse]) error {
	md, _ := metadata.FromIncomingContext(out.Context())
	task := &fleetv1.Task{Id: taskID, AgentName: "papi", Status: fleetv1.Task_completed, Summary: "Done", CreatedAt: eventTime, Source: fleetv1.Task_human}
	s.mu.Lock()
	s.requestIDs = append(s.requestIDs, q.GetRequestId())
	s.mu.Unlock()
	if len(md.Get("fleet-detached")) > 0 && !s.callerIsAgent {
		task.Status = fleetv1.Task_pending
		s.markRunning()
		if s.detach != nil {
			<-s.detach
		}
	} else if s.ended != nil {
		s.markWaiting()
		if err := out.Send(&fleetv1.RunTaskResponse{Type: fleetv1.RunTaskResponse_progress, Task: &fleetv1.Task{Id: taskID}}); err != nil {
			return err
		}
		select {
		case <-s.ended:
		case <-out.Context().Done():
			return out.Context().Err()
		}
	}
	return out.Send(&fleetv1.RunTaskResponse{Type: fleetv1.RunTaskResponse_result, Task: task, Message: "It is so"})
}

// WatchFleet sends one event, for a question.
func (s *taskStub) WatchFleet(_ *fleetv1.WatchFleetRequest, out grpc.ServerStreamingServer[fleetv1.WatchFleetResponse]) error {
	if s.ended != nil {
		select {
		case <-s.waiting:
		case <-out.Context().Done():
			return out.Context().Err()
		}
	}
	if err := out.Send(&fleetv1.WatchFleetResponse{Events: []*fleetv1.Event{{Type: fleetv1.Event_task_question}}}); err != nil {
		return err
	}
	<-out.Context().Done()
	return out.Context().Err()
}

func (s *taskStub) ShowTask(_ context.Context, q *fleetv1.ShowTaskRequest) (*fleetv1.ShowTaskResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &fleetv1.ShowTaskResponse{Task: s.task}, s.checkAccess(q.GetTaskId())
}

// checkAccess returns an error if the caller is an agent, or if the task does not exist. The lock must be held.
func (s *taskStub) checkAccess(id string) error {
	switch {
	case s.callerIsAgent:
		return status.Error(codes.PermissionDenied, "an agent may not do this")
	case id != taskID:
		return status.Error(codes.NotFound, "task not found")
	}
	return nil
}

func (s *taskStub) ListQuestions(_ context.Context, q *fleetv1.ListQuestionsRequest) (*fleetv1.ListQuestionsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &fleetv1.ListQuestionsResponse{Questions: s.questions}, s.checkAccess(q.GetTaskId())
}

func (s *taskStub) AnswerQuestion(_ context.Context, q *fleetv1.AnswerQuestionRequest) (*fleetv1.AnswerQuestionResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, q.GetQuestionId()+" "+q.GetAnswer()+" "+q.GetMessage())
	for _, x := range s.questions {
		if x.GetId() == q.GetQuestionId() {
			x.Status = fleetv1.Question_answered
		}
	}
	return &fleetv1.AnswerQuestionResponse{}, nil
}

func (s *taskStub) StopTask(_ context.Context, q *fleetv1.StopTaskRequest) (*fleetv1.StopTaskResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.GetTaskId() != taskID {
		return nil, status.Error(codes.NotFound, "task not found")
	}
	s.stops++
	s.markStopped()
	s.task.Status, s.task.Reason = fleetv1.Task_stopped, "stopped by alice"
	return &fleetv1.StopTaskResponse{}, nil
}

// modernMeta is the _meta of a request of the newest revision, with the client's capabilities.
func modernMeta(capabilities string) string {
	return `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities + `}`
}

const tasksCapability = `{"elicitation":{"form":{},"url":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// runTaskRequest returns a call of run_task with these members in addition to its arguments.
func runTaskRequest(more string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_task","arguments":{"agent_name":"papi","task_description":"Do it"}` + withPrefix(",", more) + `}}`
}

func withPrefix(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// modernHeaders are the headers of a request of the newest revision.
func modernHeaders(method, name string) []string {
	return []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name}
}

// taskRequest is a request of the extension about the task.
func taskRequest(method, id, more string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":%q,"params":{"taskId":%q%s,%s}}`, method, id, withPrefix(",", more), modernMeta(tasksCapability))
}

// askTask sends a request of the extension about the task.
func askTask(t *testing.T, url, method, more string) rpcResponse {
	t.Helper()
	return post(t, url, taskRequest(method, taskID, more), modernHeaders(method, taskID)...)
}

// resultOf returns the result of a response.
func resultOf(t *testing.T, a rpcResponse) map[string]any {
	t.Helper()
	var m map[string]any
	require.NoError(t, json.Unmarshal(a.Result, &m), a.body)
	return m
}

// TestClientsWithoutTheExtension checks that a client that does not declare the extension in the call itself gets, byte for byte, the
// same answer as a client that declares nothing.
func TestClientsWithoutTheExtension(t *testing.T) {
	t.Parallel()
	const text = `{\"type\":\"result\",\"task\":{\"id\":\"3f0e7c52-1f2a-4a6e-8c1b-2d9a0b7c5e11\",\"agent_name\":\"papi\"`
	url := newTaskStub().serve(t)
	legacy := post(t, url, runTaskRequest("")).body
	require.True(t, strings.HasPrefix(legacy, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"`+text), legacy)
	require.NotContains(t, legacy, "resultType")
	for _, more := range []string{
		`"_meta":{}`, `"_meta":{"io.modelcontextprotocol/clientCapabilities":` + tasksCapability + `}`, `"task":{"ttl":1000}`,
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25","io.modelcontextprotocol/clientCapabilities":` + tasksCapability + `}`,
	} {
		require.Equal(t, legacy, post(t, url, runTaskRequest(more)).body, more)
	}
	headers := modernHeaders("tools/call", "run_task")
	modern := post(t, url, runTaskRequest(modernMeta(`{}`)), headers...).body
	require.Contains(t, modern, `"content":[{"type":"text","text":"`+text)
	require.Contains(t, modern, `"resultType":"complete"`)
	for _, capabilities := range []string{`{"roots":{"listChanged":true}}`, `{"extensions":{}}`, `{"extensions":{"io.modelcontextprotocol/ui":{}}}`, `{"extensions":{"io.modelcontextprotocol/ui":{}},"tasks":{}}`} {
		require.Equal(t, modern, post(t, url, runTaskRequest(modernMeta(capabilities)), headers...).body, capabilities)
	}
	// The methods of the extension do not exist in older revisions, and initialize does not announce them.
	require.NotContains(t, post(t, url, initialize).body, "extensions")
	a := post(t, url, `{"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"`+taskID+`"}}`)
	require.NotNil(t, a.Error, a.body)
	require.Equal(t, -32601, a.Error.Code)
	// An agent may not call tasks/get, so its call waits for the end of the task.
	s := newTaskStub()
	s.callerIsAgent = true
	require.Equal(t, modern, post(t, s.serve(t), runTaskRequest(modernMeta(tasksCapability)), headers...).body)
}

// TestTaskOfACall follows a task from the call that starts it to its end.
func TestTaskOfACall(t *testing.T) {
	t.Parallel()
	s := newTaskStub()
	url := s.serve(t)
	discover := post(t, url, `{"jsonrpc":"2.0","id":0,"method":"server/discover","params":{`+modernMeta(tasksCapability)+`}}`, modernHeaders("server/discover", "")...)
	require.Contains(t, discover.body, `"extensions":{"io.modelcontextprotocol/tasks":{}}`)

	created := resultOf(t, post(t, url, runTaskRequest(modernMeta(tasksCapability)), modernHeaders("tools/call", "run_task")...))
	words := created["_meta"].(map[string]any)["com.anthropic/agent-task"].(map[string]any)["modelImmediateResponse"]
	require.Contains(t, words, "papi works on another task")
	delete(created, "_meta")
	working := map[string]any{
		"resultType": "task", "taskId": taskID, "status": "working", "statusMessage": "papi works on another task",
		"createdAt": "2025-10-29T10:00:00Z", "lastUpdatedAt": "2025-10-29T10:00:00Z", "ttlMs": nil, "pollIntervalMs": 5000.0,
	}
	require.Equal(t, working, created)
	working["resultType"] = "complete"
	require.Equal(t, working, resultOf(t, askTask(t, url, "tasks/get", "")))

	input, err := structpb.NewStruct(map[string]any{"command": "rm -r build"})
	require.NoError(t, err)
	s.set(func(d *fleetv1.TaskDetail) {
		waiting := true
		d.Status, d.Queue, d.StartedAt, d.Waiting, d.Preview = fleetv1.Task_running, nil, eventTime, &waiting, "Hello\n[Bash: rm -r build]\n"
		s.questions = []*fleetv1.Question{
			{Id: taskID + "-2", AgentName: "papi", Kind: fleetv1.Question_question, Status: fleetv1.Question_waiting, Text: "Which one?", Options: []string{"red", "blue"}},
			{Id: taskID + "-1", AgentName: "papi", Kind: fleetv1.Question_permission, Status: fleetv1.Question_waiting, Tool: "Bash", Input: input},
		}
	})
	asked := resultOf(t, askTask(t, url, "tasks/get", ""))
	require.Equal(t, "input_required", asked["status"])
	requests, err := json.Marshal(asked["inputRequests"])
	require.NoError(t, err)
	require.JSONEq(t, `{
		"`+taskID+`-1": {"method": "elicitation/create", "params": {"mode": "form", "message": "Agent papi (Do it) wants to use Bash\n{\"command\":\"rm -r build\"}", "requestedSchema": {"type": "object", "required": ["decision"], "properties": {
			"decision": {"type": "string", "title": "Decision", "enum": ["allow", "deny"]}, "message": {"type": "string", "title": "Message to the agent (optional)"}}}}},
		"`+taskID+`-2": {"method": "elicitation/create", "params": {"mode": "form", "message": "Agent papi (Do it) asks: Which one?", "requestedSchema": {"type": "object", "required": ["answer"], "properties": {
			"answer": {"type": "string", "title": "Answer", "enum": ["red", "blue"]}, "other": {"type": "string", "title": "Another answer instead (optional)"}}}}}}`, string(requests))

	const answers = `"inputResponses":{"` + taskID + `-1":{"action":"accept","content":{"decision":"deny","message":"Use make clean"}},"` + taskID + `-2":{"action":"cancel"},"unknown":{"action":"accept"}}`
	for range 2 { // the second one finds the first question answered
		require.Equal(t, map[string]any{"resultType": "complete"}, resultOf(t, askTask(t, url, "tasks/update", answers)))
	}
	require.Equal(t, map[string]any{"resultType": "complete"}, resultOf(t, askTask(t, url, "tasks/update", `"inputResponses":{"`+taskID+`-2":{"action":"accept","content":{"answer":"red","other":"green"}}}`)))
	require.Equal(t, []string{taskID + "-1 deny Use make clean", taskID + "-2 green "}, s.answers)
	require.Equal(t, "Bash: rm -r build", resultOf(t, askTask(t, url, "tasks/get", ""))["statusMessage"])

	s.set(func(d *fleetv1.TaskDetail) {
		exit := int32(1)
		d.Status, d.Waiting, d.Summary, d.CompletedAt, d.CostUsd, d.PayloadSize = fleetv1.Task_failed, nil, "Three tests fail.", eventTime, 0.25, 100_000
		d.Reason, d.ReasonCode = "its checks failed", new("CHECKS_FAILED")
		d.Changes = &fleetv1.TaskChanges{Files: 2, Insertions: 10, Deletions: 3, Branch: "fleet/papi"}
		d.Checks = &fleetv1.TaskChecks{Results: []*fleetv1.TaskCheck{{Command: "make", Status: fleetv1.TaskCheck_passed}, {Command: "make test", Status: fleetv1.TaskCheck_failed, ExitCode: &exit}}}
	})
	ended := resultOf(t, askTask(t, url, "tasks/get", ""))
	require.Equal(t, "completed", ended["status"], "the status failed is for errors of the protocol")
	require.Equal(t, map[string]any{"resultType": "complete", "isError": true, "content": []any{
		map[string]any{"type": "text", "text": "Three tests fail.\n\nTask " + taskID + " of papi: failed: its checks failed.\nReason: CHECKS_FAILED.\n" +
			"Checks: 1 of 2 passed; \"make test\" failed.\nChanged files: 2, +10 -3, on branch fleet/papi; show_task_changes has them.\nCost: $0.2500."},
		map[string]any{"type": "resource_link", "uri": "fleet://task/" + taskID + "/payload", "mimeType": "text/plain", "name": "payload of task " + taskID, "description": "The whole result; show_task with include_payload reads it too."},
	}}, ended["result"])
}

func TestTaskIsCancelled(t *testing.T) {
	t.Parallel()
	s := newTaskStub()
	url := s.serve(t)
	for range 2 {
		require.Equal(t, map[string]any{"resultType": "complete"}, resultOf(t, askTask(t, url, "tasks/cancel", "")))
	}
	cancelled := resultOf(t, askTask(t, url, "tasks/get", ""))
	require.Equal(t, []any{"cancelled", "stopped by alice"}, []any{cancelled["status"], cancelled["statusMessage"]})
	require.NotContains(t, cancelled, "result")
}

func TestRefusedTaskRequests(t *testing.T) {
	t.Parallel()
	s := newTaskStub()
	url := s.serve(t)
	const unknown = "00000000-1f2a-4a6e-8c1b-2d9a0b7c5e11"
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		a := post(t, url, taskRequest(method, unknown, ""), modernHeaders(method, unknown)...)
		require.Equal(t, 400, a.status)
		require.JSONEq(t, `{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"there is no such task"}}`, a.body)
		require.Equal(t, -32602, post(t, url, taskRequest(method, "", ""), modernHeaders(method, "")...).Error.Code)
		for _, headers := range [][]string{
			modernHeaders(method, unknown), modernHeaders("tasks/list", taskID), modernHeaders(method, "")[:4],
			{"Mcp-Method", method, "Mcp-Name", taskID},
		} {
			a := post(t, url, taskRequest(method, taskID, ""), headers...)
			require.Equal(t, []any{400, -32020}, []any{a.status, a.Error.Code}, "%s", headers)
		}
	}
	s.callerIsAgent = true
	require.Equal(t, -32602, askTask(t, url, "tasks/get", "").Error.Code, "a task that the caller may not see must look like one that does not exist")
	require.Zero(t, s.stops)
}

// TestTaskOfACallerThatLeaves checks that a task is stopped if the client disconnects before it has the task.
func TestTaskOfACallerThatLeaves(t *testing.T) {
	t.Parallel()
	s := newTaskStub()
	s.detach = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	noticed, h := make(chan struct{}), mcp.Handler(connTo(s), mcp.Config{})
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// end cancels call and all its children before noticed is closed. With r.Context() the order would be random.
		call, end := context.WithCancel(context.WithoutCancel(r.Context()))
		context.AfterFunc(r.Context(), sync.OnceFunc(func() { end(); close(noticed) }))
		h.ServeHTTP(w, r.WithContext(call))
	}))
	t.Cleanup(ts.Close)
	clientLeft := make(chan struct{})
	go func() {
		defer close(clientLeft)
		_, _ = tryPost(ctx, ts.URL+"/mcp", runTaskRequest(modernMeta(tasksCapability)), modernHeaders("tools/call", "run_task")...)
	}()
	<-s.running
	s.set(func(d *fleetv1.TaskDetail) { d.CreatedAt = timestamppb.Now() }) // an older task would not be stopped
	cancel()
	<-clientLeft
	<-noticed // the server notices the disconnection later than the client
	close(s.detach)
	<-s.stopped
}

func TestTasksOnStdio(t *testing.T) {
	t.Parallel()
	s := newTaskStub()
	out, err := runStdio(t, s, runTaskRequest(modernMeta(tasksCapability)))
	require.NoError(t, err)
	require.Contains(t, out, `"resultType":"task"`)
	require.Contains(t, out, `"taskId":"`+taskID+`"`)
	out, err = runStdio(t, s, taskRequest("tasks/cancel", taskID, ""))
	require.NoError(t, err)
	require.JSONEq(t, `{"jsonrpc":"2.0","id":2,"result":{"resultType":"complete"}}`, out)
	out, err = runStdio(t, s, taskRequest("tasks/get", taskID, ""))
	require.NoError(t, err)
	require.Contains(t, out, `"status":"cancelled"`)
}

const formsCapability = `{"elicitation":{"form":{},"url":{}}}`

// TestQuestionDuringACall lets a client that shows forms, but does not accept tasks, answer a question of the task that its
// call waits for.
func TestQuestionDuringACall(t *testing.T) {
	t.Parallel()
	question := func() []*fleetv1.Question {
		return []*fleetv1.Question{{Id: taskID + "-1", AgentName: "papi", Kind: fleetv1.Question_permission, Status: fleetv1.Question_waiting, Tool: "Bash"}}
	}
	headers := modernHeaders("tools/call", "run_task")
	plain := post(t, newTaskStub().serve(t), runTaskRequest(modernMeta(`{}`)), headers...).body
	for _, c := range []struct {
		action string
		want   []string
	}{
		{`{"action":"accept","content":{"decision":"allow"}}`, []string{taskID + "-1 allow "}},
		{`{"action":"decline"}`, []string{taskID + "-1 deny "}},
		{`{"action":"cancel"}`, nil}, // nobody is there, so the question stays open
	} {
		s := newTaskStub()
		s.ended, s.questions, s.task.Waiting = make(chan struct{}), question(), new(true)
		url := s.serve(t)
		asked := resultOf(t, post(t, url, runTaskRequest(modernMeta(formsCapability)), headers...))
		require.Equal(t, "input_required", asked["resultType"])
		require.Contains(t, asked["inputRequests"], taskID+"-1")
		state, err := json.Marshal(asked["requestState"])
		require.NoError(t, err)
		close(s.ended)
		again := post(t, url, runTaskRequest(`"inputResponses":{"`+taskID+`-1":`+c.action+`},"requestState":`+string(state)+`,`+modernMeta(formsCapability)), headers...)
		require.Equal(t, plain, again.body, "the result must be that of a client without forms")
		require.Equal(t, c.want, s.answers)
		require.Len(t, s.requestIDs, 4, "each of the two calls must start the task and then wait for it")
		require.NotEmpty(t, s.requestIDs[0])
		require.Len(t, slices.Compact(s.requestIDs), 1, "the repeated call must wait for the same task")
		require.Zero(t, s.stops)
	}
	// A request id that is empty or null counts as absent, and a request id of the caller's own is kept.
	for value, kept := range map[string]string{`""`: "", ` null `: "", `"mine"`: "mine"} {
		s := newTaskStub()
		s.ended = make(chan struct{})
		close(s.ended)
		request := strings.Replace(runTaskRequest(modernMeta(formsCapability)), `"agent_name"`, `"request_id":`+value+`,"agent_name"`, 1)
		require.Equal(t, plain, post(t, s.serve(t), request, headers...).body, value)
		require.Len(t, s.requestIDs, 2, value)
		require.NotEmpty(t, s.requestIDs[0], value)
		require.Len(t, slices.Compact(s.requestIDs), 1, "%s: the call must wait for the task that it has started", value)
		require.True(t, kept == "" || s.requestIDs[0] == kept, "%s: %s", value, s.requestIDs[0])
	}
	// Clients of older revisions, and those that show no forms, wait as before.
	s := newTaskStub()
	s.ended, s.questions = make(chan struct{}), question()
	close(s.ended)
	require.Equal(t, plain, post(t, s.serve(t), runTaskRequest(modernMeta(`{"elicitation":{"url":{}}}`)), headers...).body)
	legacy := post(t, s.serve(t), runTaskRequest(`"_meta":{"io.modelcontextprotocol/clientCapabilities":`+formsCapability+`}`))
	require.Contains(t, legacy.body, "It is so")
	require.Equal(t, []string{"", ""}, s.requestIDs)
	// An agent cannot answer questions, so RunTask is called only once.
	s = newTaskStub()
	s.callerIsAgent = true
	require.Equal(t, plain, post(t, s.serve(t), runTaskRequest(modernMeta(formsCapability)), headers...).body)
	require.Len(t, s.requestIDs, 1)
}
