package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"fleet/internal/face/mcp/tool"
)

// immediateResponseKey is a key in the _meta of a task. Claude Code passes the text under this key to the model without waiting for the
// task.
const immediateResponseKey = "com.anthropic/agent-task"

// handler returns the handler of a tool. If the tool starts tasks and the client accepts tasks, the result of a call is the
// task, as soon as it is stored. If the client only shows forms and the call waits for its task, the call asks the questions of the
// task with forms. All other calls are answered as if the extension did not exist.
func (t tasks) handler(x tool.Tool) server.ToolHandlerFunc {
	if x.Task.Path == "" {
		return x.Handler
	}
	return func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		switch c := capabilities(r.Params.Meta); {
		case acceptsTasks(c):
			return t.callForTask(ctx, x, r)
		case acceptsForms(c) && !x.Task.AtOnce:
			return t.callWithForms(ctx, x, r)
		}
		return x.Handler(ctx, r)
	}
}

// callForTask makes a call and answers it with an MCP task for the tasks that the call starts. If the call starts none, or the id of the
// MCP task would be too long, callForTask returns the call's own result.
func (t tasks) callForTask(ctx context.Context, x tool.Tool, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	began := time.Now()
	callCtx, stop := withDisconnectGrace(ctx)
	defer stop()
	result, ref, err := t.startTasks(callCtx, x, r)
	if err != nil || len(ref.ids) == 0 || len(ref.String()) > maxTaskID {
		return result, err
	}
	shown, err := t.show(callCtx, ref)
	if err != nil { // the task is stored, so the client can ask for it later
		now := began.UTC().Format(time.RFC3339)
		shown = &task{ID: ref.String(), Status: taskWorking, CreatedAt: now, LastUpdatedAt: now, PollInterval: newTaskPoll.Milliseconds()}
	}
	if !x.Task.AtOnce { // other clients may also use the task of an AtOnce tool
		recordUnreportedTask(ctx, shown, began)
	}
	return answerWithTask(ctx, shown)
}

// startTasks makes a call that does not wait for the tasks that it starts. The returned taskRef is empty if the call started no
// tasks, or if the caller is an agent. The call of an agent waits for its tasks, since agents can neither ask for tasks nor answer
// questions.
func (t tasks) startTasks(ctx context.Context, x tool.Tool, r mcp.CallToolRequest) (*mcp.CallToolResult, taskRef, error) {
	callCtx, started := tool.WithStartedTasks(metadata.AppendToOutgoingContext(ctx, "fleet-detached", "true"))
	result, err := x.Handler(callCtx, r)
	if err != nil || len(started.IDs) == 0 {
		return result, taskRef{}, err
	}
	if _, err := t.openQuestions(ctx, started.IDs[0]); status.Code(err) == codes.PermissionDenied {
		return result, taskRef{}, nil
	}
	return result, taskRef{ids: started.IDs, waitsForLanding: x.Task.Landed}, nil
}

// disconnectGrace is how long a call that starts a task continues after its client has disconnected. In this time, the call usually
// returns the id of the task, so that the task can be stopped.
const disconnectGrace = 5 * time.Second

// withDisconnectGrace returns a context that is cancelled disconnectGrace after ctx is done, or by stop.
func withDisconnectGrace(ctx context.Context) (_ context.Context, stop func()) {
	extended, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ignore := context.AfterFunc(ctx, func() { time.AfterFunc(disconnectGrace, cancel) })
	return extended, func() { ignore(); cancel() }
}

// answerWithTask makes the response of the context's call the task, and returns the result for mcp-go. The client requests the outcome separately, even
// if the task has already ended.
func answerWithTask(ctx context.Context, shown *task) (*mcp.CallToolResult, error) {
	handle := *shown
	handle.InputRequests, handle.Result = nil, nil
	members, err := json.Marshal(handle)
	if err != nil {
		return nil, err
	}
	tool.DeferredResultOf(ctx).SetTask(members)
	doing := cmp.Or(strings.TrimSuffix(shown.StatusMessage, "."), shown.Status)
	words := fmt.Sprintf("Task %s of Fleet: %s. Its result comes by itself when it has ended: do not ask for it.", shown.ID, doing)
	if ref, _ := readRef(shown.ID); ref.waitsForLanding {
		words = fmt.Sprintf("The work of %d tasks lands: %s. The result comes by itself: do not ask for it.", len(ref.ids), doing)
	} else if len(ref.ids) > 1 {
		words = fmt.Sprintf("Tasks of Fleet: %s. The results come by themselves when all have ended: do not ask for them.", strings.Join(ref.ids, ", "))
	}
	return &mcp.CallToolResult{Result: mcp.Result{
		ResultType: "task",
		Meta: &mcp.Meta{AdditionalFields: map[string]any{immediateResponseKey: map[string]any{
			"modelImmediateResponse": words,
		}}},
	}}, nil
}

type unreportedTaskKey struct{}

// unreportedTask is the task that a call has started, until the client has the answer, which names it; its ID is empty if there is none.
type unreportedTask struct{ ID string }

// withUnreportedTask returns a context for one call of a tool. If the call's answer does not reach the client, the unreported task must be
// stopped with abandon, because nobody knows of it.
func withUnreportedTask(ctx context.Context) (context.Context, *unreportedTask) {
	unreported := &unreportedTask{}
	return context.WithValue(ctx, unreportedTaskKey{}, unreported), unreported
}

// recordUnreportedTask sets the unreported task of the context's call. It does nothing if the task is older than the call, which then repeats
// an earlier request.
func recordUnreportedTask(ctx context.Context, shown *task, began time.Time) {
	unreported, _ := ctx.Value(unreportedTaskKey{}).(*unreportedTask)
	at, err := time.Parse(time.RFC3339, shown.CreatedAt)
	if unreported != nil && err == nil && at.After(began.Add(-2*time.Second)) { // the time has whole seconds
		unreported.ID = shown.ID
	}
}

// abandonTimeout limits how long it may take to stop a task that nobody knows of.
const abandonTimeout = 10 * time.Second

// abandon stops the unreported task, if there is one, even if ctx is done. It ignores errors.
func (t tasks) abandon(ctx context.Context, unreported *unreportedTask) {
	if unreported.ID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTimeout)
	defer cancel()
	_ = t.cancel(ctx, taskRef{ids: []string{unreported.ID}}) // the client has disconnected, so nobody can be told of an error
}
