package app

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/waittest"
)

// mcpTaskResponse is a response of MCP to a request about a task, or to a call that may start a task.
type mcpTaskResponse struct {
	Result struct {
		ResultType    string
		TaskID        string
		Status        string
		StatusMessage string
		InputRequests map[string]any
		RequestState  string
		Content       []struct{ Text string } // the result of a call that was answered without a task
		Result        struct{ Content []struct{ Text string } }
	}
	Error struct {
		Code    int
		Message string
	}
}

// sendAcceptingTasks sends a request of an MCP client that accepts tasks. name is the tool, or the id of the task.
func (f *testFleet) sendAcceptingTasks(t *testing.T, caller, method, name string, params map[string]any) (r mcpTaskResponse) {
	t.Helper()
	r, err := f.sendMCP(t.Context(), `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, caller, method, name, params)
	require.NoError(t, err)
	return r
}

// sendMCP sends a request of an MCP client with the capabilities, which are JSON.
func (f *testFleet) sendMCP(ctx context.Context, capabilities, caller, method, name string, params map[string]any) (r mcpTaskResponse, err error) {
	const version = "2026-07-28"
	params["_meta"] = map[string]any{
		"io.modelcontextprotocol/protocolVersion":    version,
		"io.modelcontextprotocol/clientCapabilities": json.RawMessage(capabilities),
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return r, err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+f.HTTPAddr()+"/mcp/all", strings.NewReader(string(body)))
	if err != nil {
		return r, err
	}
	for k, v := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": f.authorization(caller),
		"Mcp-Protocol-Version": version, "Mcp-Method": method, "Mcp-Name": name,
	} {
		q.Header.Set(k, v)
	}
	resp, err := f.http.Do(q)
	if err != nil {
		return r, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	return r, err
}

// TestTasksOfMCP calls methods that start a task, follows the tasks, and checks that nobody else can reach them.
func TestTasksOfMCP(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"alice": {}, "bob": {}, "reader": {Scope: "read"}}},
		step{Agent: "papi", Caller: "alice"},
		step{Call: "create_agent_session", With: map[string]any{"agent": "echo"}, Caller: "alice", Save: map[string]string{"session": "agent_session_id"}},
	)
	for tool, args := range map[string]map[string]any{
		"run_task":              {"agent_name": "papi", "task_description": "wait run_task\ndone the answer"},
		"run_subagent":          {"agent_name": "web-search", "prompt": "wait run_subagent\ndone the answer"},
		"execute_agent_request": {"agent_name": "claude", "prompt": "wait execute_agent_request\ndone the answer"},
		"invoke_agent":          {"agent": "echo", "message": "wait invoke_agent\ndone the answer"},
		"send_message":          {"agent_session_id": f.variables["session"], "message": "wait send_message\ndone the answer"},
	} {
		t.Run(tool, func(t *testing.T) {
			args["request_id"] = tool
			created := f.sendAcceptingTasks(t, "alice", "tools/call", tool, map[string]any{"name": tool, "arguments": args}).Result
			require.Equal(t, []string{"task", "working"}, []string{created.ResultType, created.Status})
			again := f.sendAcceptingTasks(t, "alice", "tools/call", tool, map[string]any{"name": tool, "arguments": args}).Result
			require.Equal(t, created.TaskID, again.TaskID, "a repeated call must get the same task")
			sendTaskRequest := func(caller, method string) mcpTaskResponse {
				return f.sendAcceptingTasks(t, caller, method, created.TaskID, map[string]any{"taskId": created.TaskID})
			}
			for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
				for _, caller := range []string{"bob", "reader"} {
					response := sendTaskRequest(caller, method)
					require.Equal(t, []any{-32602, "there is no such task"}, []any{response.Error.Code, response.Error.Message}, "%s by %s", method, caller)
				}
			}
			require.Equal(t, "working", sendTaskRequest("alice", "tasks/get").Result.Status)
			f.prepare(t, step{Place: map[string]any{"release": tool}})
			waittest.Until(t, "MCP has no call that waits for a task", func() bool { return sendTaskRequest("alice", "tasks/get").Result.Status == "completed" })
			require.True(t, strings.HasPrefix(sendTaskRequest("alice", "tasks/get").Result.Result.Content[0].Text, "the answer\n\nTask "+created.TaskID))
		})
	}

	// A call that starts no task gets its result or its error.
	require.Equal(t, "complete", f.sendAcceptingTasks(t, "alice", "tools/call", "execute_agent_request", map[string]any{"name": "execute_agent_request", "arguments": map[string]any{"agent_name": "nobody", "prompt": "p"}}).Result.ResultType)
	require.Equal(t, "complete", f.sendAcceptingTasks(t, "alice", "tools/call", "run_task", map[string]any{"name": "run_task", "arguments": map[string]any{"task_description": "done"}}).Result.ResultType)

	// Only the first answer to a question counts. A task that is cancelled twice is stopped once.
	run := func(script string) string {
		return f.sendAcceptingTasks(t, "alice", "tools/call", "run_task", map[string]any{"name": "run_task", "arguments": map[string]any{"agent_name": "papi", "task_description": script}}).Result.TaskID
	}
	id := run("ask How many?\nwork 1h")
	var question string
	waittest.Until(t, "MCP has no call that waits for a question", func() bool {
		requests := f.sendAcceptingTasks(t, "alice", "tasks/get", id, map[string]any{"taskId": id}).Result.InputRequests
		question = strings.Join(slices.Collect(maps.Keys(requests)), ",") // there is one
		return question != ""
	})
	for _, answer := range []string{"seven", "eight"} { // the second answer comes too late, and is ignored
		response := f.sendAcceptingTasks(t, "alice", "tasks/update", id, map[string]any{"taskId": id, "inputResponses": map[string]any{
			question: map[string]any{"action": "accept", "content": map[string]any{"answer": answer}},
		}})
		require.Equal(t, "complete", response.Result.ResultType, response.Error.Message)
	}
	f.prepare(t, step{Call: "list_questions", With: map[string]any{"task_id": id, "include_answered": true}, Caller: "alice", Until: map[string]any{"questions": []any{map[string]any{"answer": "seven", "answered_by": "alice"}}}})
	for range 2 {
		require.Equal(t, "complete", f.sendAcceptingTasks(t, "alice", "tasks/cancel", id, map[string]any{"taskId": id}).Result.ResultType)
	}
	require.Equal(t, "cancelled", f.sendAcceptingTasks(t, "alice", "tasks/get", id, map[string]any{"taskId": id}).Result.Status)
}

// TestFormsOfMCP calls methods that wait for a task, with a client that shows forms but does not accept tasks. A question of the task is
// the answer to the call, and the client repeats the call with its reply. Then a client leaves while its call waits.
func TestFormsOfMCP(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"alice": {}}},
		step{Agent: "papi", Caller: "alice"},
		step{Call: "create_agent_session", With: map[string]any{"agent": "echo"}, Caller: "alice", Save: map[string]string{"session": "agent_session_id"}},
	)
	for tool, args := range map[string]func(script string) map[string]any{
		"run_task": func(script string) map[string]any {
			return map[string]any{"agent_name": "papi", "task_description": script}
		},
		"run_subagent": func(script string) map[string]any {
			return map[string]any{"agent_name": "web-search", "prompt": script}
		},
		"execute_agent_request": func(script string) map[string]any { return map[string]any{"agent_name": "claude", "prompt": script} },
		"invoke_agent":          func(script string) map[string]any { return map[string]any{"agent": "echo", "message": script} },
		"send_message": func(script string) map[string]any {
			return map[string]any{"agent_session_id": f.variables["session"], "message": script}
		},
	} {
		t.Run(tool, func(t *testing.T) {
			call := func(ctx context.Context, script string, more map[string]any) (mcpTaskResponse, error) {
				params := map[string]any{"name": tool, "arguments": args(script)}
				maps.Copy(params, more)
				return f.sendMCP(ctx, `{"elicitation":{"form":{}}}`, "alice", "tools/call", tool, params)
			}
			const script = "ask How many?\nask And where?\ndone the answer"
			response, err := call(t.Context(), script, nil)
			for _, answer := range []string{"seven", "here"} { // there is a form for each of the two questions
				require.NoError(t, err)
				require.Equal(t, "input_required", response.Result.ResultType, response.Result.Content)
				require.Len(t, response.Result.InputRequests, 1)
				responses := map[string]any{}
				for id := range response.Result.InputRequests {
					responses[id] = map[string]any{"action": "accept", "content": map[string]any{"answer": answer}}
				}
				response, err = call(t.Context(), script, map[string]any{"requestState": response.Result.RequestState, "inputResponses": responses})
			}
			require.NoError(t, err)
			require.Equal(t, "complete", response.Result.ResultType)
			require.Contains(t, response.Result.Content[0].Text, "the answer")
			f.prepare(t, step{Call: "list_questions", With: map[string]any{"include_answered": true, "limit": 2}, Caller: "alice", Until: map[string]any{
				"questions": []any{map[string]any{"answer": "here", "answered_by": "alice"}, map[string]any{"answer": "seven", "answered_by": "alice"}},
			}})

			// When a client leaves, the task of its call is stopped, except a task of run_task.
			awaitOpenCalls := func(n int64) {
				waittest.Until(t, "a call gives no signal", func() bool { return f.guard.openCalls.Load() == n })
			}
			awaitOpenCalls(0)
			ctx, leave := context.WithCancel(t.Context())
			leftCall := make(chan error, 1)
			go func() {
				_, err := call(ctx, "wait "+tool+"\ndone", nil)
				leftCall <- err
			}()
			f.prepare(t, step{Call: "list_tasks", With: map[string]any{"status": "running", "toolset": "every"}, Caller: "alice", Until: map[string]any{"tasks": []any{map[string]any{"status": "running"}}}, Save: map[string]string{"left": "tasks.0.id"}})
			awaitOpenCalls(2) // the call knows its task: it waits for the task, and watches it for questions
			leave()
			require.Error(t, <-leftCall)
			want := "stopped"
			if tool == "run_task" {
				want = "completed"
				f.prepare(t, step{Place: map[string]any{"release": tool}})
			}
			f.prepare(t, step{Call: "show_task", With: map[string]any{"task_id": f.variables["left"]}, Caller: "alice", Until: map[string]any{"task": map[string]any{"status": want}}})
		})
	}
}
