package mcp_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/mcp"
)

// groupStub is a FleetService with several tasks.
type groupStub struct {
	fleetv1.UnimplementedFleetServiceServer

	mu        sync.Mutex
	tasks     map[string]*fleetv1.TaskDetail
	questions map[string]*fleetv1.Question // by the id of the task
	changes   []string                     // the answers and stops, in order
	stopping  sync.WaitGroup               // the calls of StopTask that a test expects; each waits until all have begun
}

func (s *groupStub) LandTasks(_ context.Context, q *fleetv1.LandTasksRequest) (*fleetv1.LandTasksResponse, error) {
	r := &fleetv1.LandTasksResponse{Message: "They are in the queue"}
	for _, id := range q.GetTaskIds() {
		r.Tasks = append(r.Tasks, &fleetv1.LandedTask{TaskId: id})
	}
	return r, nil
}

func (s *groupStub) FanOutTask(context.Context, *fleetv1.FanOutTaskRequest) (*fleetv1.FanOutTaskResponse, error) {
	return &fleetv1.FanOutTaskResponse{Tasks: []*fleetv1.Task{{Id: "a"}, {Id: "b"}}}, nil
}

func (s *groupStub) ReviewTask(_ context.Context, q *fleetv1.ReviewTaskRequest) (*fleetv1.ReviewTaskResponse, error) {
	r := &fleetv1.ReviewTaskResponse{Review: &fleetv1.Review{Id: "a/1", Verdict: q.GetVerdict()}}
	if q.GetVerdict() == fleetv1.Review_request_changes {
		r.Review.NextTaskId = new("b")
	}
	return r, nil
}

func (s *groupStub) ShowTask(_ context.Context, q *fleetv1.ShowTaskRequest) (*fleetv1.ShowTaskResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.tasks[q.GetTaskId()]
	if d == nil {
		return nil, status.Error(codes.NotFound, "task not found")
	}
	d.Id, d.CreatedAt = q.GetTaskId(), eventTime
	return &fleetv1.ShowTaskResponse{Task: d}, nil
}

func (s *groupStub) ListQuestions(_ context.Context, q *fleetv1.ListQuestionsRequest) (*fleetv1.ListQuestionsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &fleetv1.ListQuestionsResponse{}
	if x := s.questions[q.GetTaskId()]; x != nil {
		r.Questions = append(r.Questions, x)
	}
	return r, nil
}

func (s *groupStub) AnswerQuestion(_ context.Context, q *fleetv1.AnswerQuestionRequest) (*fleetv1.AnswerQuestionResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes = append(s.changes, "answer "+q.GetQuestionId()+" "+q.GetAnswer())
	return &fleetv1.AnswerQuestionResponse{}, nil
}

func (s *groupStub) StopTask(_ context.Context, q *fleetv1.StopTaskRequest) (*fleetv1.StopTaskResponse, error) {
	s.stopping.Done()
	s.stopping.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tasks[q.GetTaskId()] == nil {
		return nil, status.Error(codes.NotFound, "task not found")
	}
	s.changes = append(s.changes, "stop "+q.GetTaskId())
	return &fleetv1.StopTaskResponse{}, nil
}

// newTaskDetail returns a completed task whose landing is in the state.
func newTaskDetail(state fleetv1.Landing_State) *fleetv1.TaskDetail {
	return &fleetv1.TaskDetail{AgentName: "papi", Status: fleetv1.Task_completed, Summary: "Do it", Landing: &fleetv1.Landing{State: state}}
}

// start serves the stub. It returns the URL of the endpoint, and the result of calling the tool as a client that accepts tasks.
func (s *groupStub) start(t *testing.T, tool, arguments string) (url string, result map[string]any) {
	t.Helper()
	url = serve(t, s, mcp.Config{}).URL + "/mcp/all"
	return url, resultOf(t, post(t, url, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`","arguments":`+arguments+`,`+modernMeta(tasksCapability)+`}}`, modernHeaders("tools/call", tool)...))
}

// askAbout sends a request of the extension about the MCP task, and returns its result.
func askAbout(t *testing.T, url, method, id, more string) map[string]any {
	t.Helper()
	return resultOf(t, post(t, url, taskRequest(method, id, more), modernHeaders(method, id)...))
}

// TestTaskOfALanding follows the MCP task of a landing until the work has landed, even if another task has to fix it first.
func TestTaskOfALanding(t *testing.T) {
	t.Parallel()
	s := &groupStub{tasks: map[string]*fleetv1.TaskDetail{
		"a": newTaskDetail(fleetv1.Landing_queued), "b": newTaskDetail(fleetv1.Landing_queued),
	}}
	_, result := s.start(t, "land_tasks", `{"task_ids":["a","b"],"dry_run":true}`)
	require.Equal(t, "complete", result["resultType"], "a dry run must start no task")
	url, result := s.start(t, "land_tasks", `{"task_ids":["a","b"]}`)
	require.Equal(t, []any{"task", "landing.a.b", "working", "0 of 2 are through; task a lands"}, []any{result["resultType"], result["taskId"], result["status"], result["statusMessage"]})
	get := func() map[string]any { return askAbout(t, url, "tasks/get", "landing.a.b", "") }

	landed := newTaskDetail(fleetv1.Landing_landed)
	landed.Landing.Into, landed.Landing.LandedSha = new("main"), new("abc")
	conflict := newTaskDetail(fleetv1.Landing_conflict)
	conflict.Landing.NextTaskId, conflict.Landing.Problem = new("c"), new("it conflicts")
	mending := &fleetv1.TaskDetail{AgentName: "papi", Status: fleetv1.Task_running, Summary: "Resolve the conflicts", Waiting: new(true)}
	s.tasks = map[string]*fleetv1.TaskDetail{"a": landed, "b": conflict, "c": mending}
	s.questions = map[string]*fleetv1.Question{"c": {Id: "c-1", AgentName: "papi", Status: fleetv1.Question_waiting, Text: "Which?"}}
	asked := get()
	require.Equal(t, "input_required", asked["status"])
	require.Equal(t, "Agent papi (Resolve the conflicts) asks: Which?", asked["inputRequests"].(map[string]any)["c-1"].(map[string]any)["params"].(map[string]any)["message"])
	askAbout(t, url, "tasks/update", "landing.a.b", `"inputResponses":{"c-1":{"action":"accept","content":{"answer":"this"}}}`)
	askAbout(t, url, "tasks/cancel", "landing.a.b", "")
	require.Equal(t, []string{"answer c-1 this"}, s.changes, "cancelling the MCP task must not stop the landing")

	mending.Waiting, mending.Preview = nil, "git rebase"
	require.Equal(t, "1 of 2 are through; papi: git rebase", get()["statusMessage"])
	conflict.Landing.State, mending.Status, mending.Landing = fleetv1.Landing_replaced, fleetv1.Task_completed, &fleetv1.Landing{State: fleetv1.Landing_queued}
	require.Equal(t, "working", get()["status"])
	mending.Landing = &fleetv1.Landing{State: fleetv1.Landing_changes_requested, Problem: new("the check failed.")}
	over := get()
	require.Equal(t, []any{"completed", true}, []any{over["status"], over["result"].(map[string]any)["isError"]})
	require.Equal(t, "The work of 1 of 2 tasks landed.\n\nTask a of papi: completed.\nIt landed in main with the commit abc.\n> Do it\n\n"+
		"Task c of papi: completed.\nIt does not land: the check failed.\n> Resolve the conflicts", over["result"].(map[string]any)["content"].([]any)[0].(map[string]any)["text"])
	mending.Landing = landed.Landing
	require.NotEqual(t, true, get()["result"].(map[string]any)["isError"])
}

// TestTaskOfSeveralTasks follows the MCP task of a fan-out until its tasks have ended, and checks that ids that are not valid are refused.
func TestTaskOfSeveralTasks(t *testing.T) {
	t.Parallel()
	s := &groupStub{tasks: map[string]*fleetv1.TaskDetail{
		"a": {AgentName: "papi", Status: fleetv1.Task_running, Preview: "make"}, "b": {AgentName: "mama", Status: fleetv1.Task_failed, Reason: "out of luck"},
	}}
	url, result := s.start(t, "fan_out_task", `{"task_description":"Try it","pool":"web","count":2}`)
	require.Equal(t, []any{"task", "tasks.a.b", "1 of 2 have ended; papi: make"}, []any{result["resultType"], result["taskId"], result["statusMessage"]})
	words := result["_meta"].(map[string]any)["com.anthropic/agent-task"].(map[string]any)["modelImmediateResponse"]
	require.Equal(t, "Tasks of Fleet: a, b. The results come by themselves when all have ended: do not ask for them.", words)
	s.stopping.Add(2)
	askAbout(t, url, "tasks/cancel", "tasks.a.b", "")
	slices.Sort(s.changes) // the tasks are stopped in parallel
	require.Equal(t, []string{"stop a", "stop b"}, s.changes)
	s.changes = nil
	s.stopping.Add(3)
	const withUnknown = "tasks.x.a.b"
	require.Equal(t, -32602, post(t, url, taskRequest("tasks/cancel", withUnknown, ""), modernHeaders("tasks/cancel", withUnknown)...).Error.Code)
	require.Len(t, s.changes, 2, "the other tasks must be stopped although one cannot be stopped")
	s.tasks["a"].Status, s.tasks["a"].Summary = fleetv1.Task_completed, "Done"
	over := askAbout(t, url, "tasks/get", "tasks.a.b", "")
	require.Nil(t, over["result"].(map[string]any)["isError"], "the result must not be an error if one task has completed")
	require.Equal(t, "1 of 2 tasks completed.\n\nTask a of papi: completed.\n> Done\n\nTask b of mama: failed: out of luck.", over["result"].(map[string]any)["content"].([]any)[0].(map[string]any)["text"])
	for _, d := range s.tasks {
		d.Status, d.Reason = fleetv1.Task_stopped, "stopped by alice"
	}
	over = askAbout(t, url, "tasks/get", "tasks.a.b", "")
	require.Equal(t, []any{"cancelled", "stopped by alice"}, []any{over["status"], over["statusMessage"]})

	for _, id := range []string{"tasks.", "landing.", "tasks.a..b", "landing.a.x", "tasks." + strings.Repeat("a.", 600) + "a"} {
		for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
			a := post(t, url, taskRequest(method, id, ""), modernHeaders(method, id)...)
			require.Equal(t, -32602, a.Error.Code, "%s of %.40s", method, id)
		}
	}
}

// TestTaskOfAReview checks that a review is answered with the task that makes the requested changes, if there is one.
func TestTaskOfAReview(t *testing.T) {
	t.Parallel()
	s := &groupStub{tasks: map[string]*fleetv1.TaskDetail{"b": {Status: fleetv1.Task_pending}}}
	_, result := s.start(t, "review_task", `{"task_id":"a","verdict":"request_changes","text":"No"}`)
	require.Equal(t, []any{"task", "b"}, []any{result["resultType"], result["taskId"]})
	_, result = s.start(t, "review_task", `{"task_id":"a","verdict":"approve"}`)
	require.Equal(t, "complete", result["resultType"])
}
