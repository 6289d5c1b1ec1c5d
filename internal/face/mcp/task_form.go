package mcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"
	"google.golang.org/grpc/metadata"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/mcp/tool"
)

// formState is the state of a call that was answered with a form. The client sends it back when it repeats the call.
type formState struct {
	Task      string   `json:"task"`
	RequestID string   `json:"request_id"` // with it, the repeated call waits for the same task
	Responded []string `json:"left"`       // ids of the questions that the client has responded to; the call does not ask them again
}

// callWithForms calls a tool that starts a task and waits for it, for a client that can show forms. If the task's agent asks a question
// meanwhile, the call is answered with a form. The client then repeats the call with the person's answer. A client without a person
// cancels the form. Then the question stays open for others, and the repeated call waits as if there were no form.
//
// callWithForms calls the tool twice, because a call names its task only at its end. The first call starts the task. The second call
// has the same request id and waits for the task.
func (t tasks) callWithForms(ctx context.Context, x tool.Tool, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var state formState
	if json.Unmarshal([]byte(r.Params.RequestState), &state) != nil || state.Task == "" {
		state = formState{RequestID: rand.Text()}
	} else if result := t.sendAnswers(ctx, &state, r.Params.InputResponses); result != nil {
		return result, nil
	}
	r, hasOwnID := withRequestID(r, state.RequestID)
	callCtx, end := withDisconnectGrace(ctx)
	defer end()
	result, ref, err := t.startTasks(callCtx, x, r)
	if err != nil || len(ref.ids) == 0 {
		return result, err
	}
	state.Task = ref.ids[0]
	waiting, stop := context.WithCancel(metadata.AppendToOutgoingContext(ctx, "fleet-resumes", "true"))
	defer stop()
	forms := make(chan mcp.InputRequests, 1)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if next := t.nextForms(waiting, state.Task, state.Responded); next != nil {
			forms <- next
			stop() // the call is answered with the form
		}
	}()
	result, err = x.Handler(waiting, r)
	stop()
	<-watched
	if ctx.Err() != nil && !x.Task.OutlivesCall && !hasOwnID { // the client has left and does not know the request id, so nobody can get the result
		t.abandon(ctx, &unreportedTask{state.Task})
	}
	select {
	case requests := <-forms:
		if err == nil && result != nil && !result.IsError { // the task has ended meanwhile
			return result, nil
		}
		text, err := json.Marshal(state)
		if err != nil {
			return nil, err
		}
		return &mcp.CallToolResult{
			Result:               mcp.Result{ResultType: mcp.ResultTypeInputRequired},
			MultiRoundTripResult: mcp.MultiRoundTripResult{InputRequests: requests, RequestState: string(text)},
		}, nil
	default:
		return result, err
	}
}

// sendAnswers gives the client's answers to the questions of the task, and adds the questions to state.Responded. It returns nil, or the
// result of the call if the answers cannot be given.
func (t tasks) sendAnswers(ctx context.Context, state *formState, responses mcp.InputResponses) *mcp.CallToolResult {
	raw := map[string]json.RawMessage{}
	for id, response := range responses {
		text, err := json.Marshal(response)
		if err != nil {
			continue
		}
		raw[id] = text
		if !slices.Contains(state.Responded, id) {
			state.Responded = append(state.Responded, id)
		}
	}
	if err := t.update(ctx, taskRef{ids: []string{state.Task}}, raw); err != nil {
		return tool.Failure(ctx, err)
	}
	return nil
}

// nextForms waits until the task has open questions that are not in responded and that the caller may answer, and returns their
// forms. It returns nil if the task or ctx ends, or if a call fails.
func (t tasks) nextForms(ctx context.Context, id string, responded []string) mcp.InputRequests {
	events, err := t.api.WatchFleet(ctx, &fleetv1.WatchFleetRequest{TaskId: id, Follow: true, Quiet: true})
	if err != nil {
		return nil
	}
	for {
		batch, err := events.Recv()
		if err != nil {
			return nil // the call goes on without forms
		}
		if !slices.ContainsFunc(batch.GetEvents(), func(e *fleetv1.Event) bool { return e.GetType() == fleetv1.Event_task_question }) {
			continue
		}
		all, err := t.details(ctx, taskRef{ids: []string{id}})
		if err != nil {
			return nil
		}
		forms, err := t.questionForms(ctx, all...)
		if err != nil {
			return nil
		}
		for _, question := range responded {
			delete(forms, question)
		}
		if len(forms) > 0 {
			return forms
		}
	}
}

// withRequestID adds a request id to the call if its arguments are an object without one. A request id that is empty or null counts as
// none: its value is replaced, because a repeated member is refused. hasOwnID reports whether the arguments already have a request id.
func withRequestID(r mcp.CallToolRequest, id string) (_ mcp.CallToolRequest, hasOwnID bool) {
	arguments := bytes.TrimSpace(r.Params.RawArguments)
	var object map[string]json.RawMessage
	if json.Unmarshal(arguments, &object) != nil || object == nil {
		return r, false
	}
	d := json.NewDecoder(bytes.NewReader(arguments))
	_, _ = d.Token() // the opening brace
	for d.More() {
		key, _ := d.Token()
		var value json.RawMessage
		_ = d.Decode(&value) // the arguments are valid JSON
		if key != "request_id" {
			continue
		}
		var text string
		if json.Unmarshal(value, &text) != nil || text != "" { // the API refuses a value of another type
			return r, true
		}
		quoted, _ := json.Marshal(id) // cannot fail
		end := int(d.InputOffset())
		r.Params.RawArguments = slices.Concat(arguments[:end-len(value)], quoted, arguments[end:])
		return r, false
	}
	member, _ := json.Marshal(map[string]string{"request_id": id}) // cannot fail
	if len(object) > 0 {
		member = append(append(member[:len(member)-1:len(member)-1], ','), arguments[1:]...)
	}
	r.Params.RawArguments = member
	return r, false
}
