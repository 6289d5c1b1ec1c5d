package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
)

// A client gets at most maxQuestions questions of a task in all, including answered ones. They are selected from the listedQuestions
// newest questions.
const (
	maxQuestions    = 16
	listedQuestions = 100
)

// answeredByPolicy is the value of answered_by for questions that were answered without asking anybody.
const answeredByPolicy = "policy"

// maxInput is how much of the input of a tool a form shows, in characters with the ellipsis.
const maxInput = 2000

// openQuestions returns the open questions of the task that the caller may answer, oldest first. It considers only the first
// maxQuestions questions that were not answered by a policy.
func (t tasks) openQuestions(ctx context.Context, id string) ([]*fleetv1.Question, error) {
	limit := int32(listedQuestions)
	r, err := t.api.ListQuestions(ctx, &fleetv1.ListQuestionsRequest{TaskId: id, IncludeAnswered: true, Limit: &limit})
	if err != nil {
		return nil, err
	}
	var all []*fleetv1.Question
	askedCount := 0
	for _, q := range slices.Backward(r.GetQuestions()) { // the oldest first
		if q.GetAnsweredBy() != answeredByPolicy {
			askedCount++
		}
		if askedCount > maxQuestions {
			break
		}
		if q.GetStatus() == fleetv1.Question_waiting && q.GetAccess() != fleetv1.Share_view {
			all = append(all, q)
		}
	}
	return all, nil
}

// questionForms returns the open questions of the tasks as forms, by the ids of the questions. It returns nil if the caller may not
// answer.
func (t tasks) questionForms(ctx context.Context, tasks ...*fleetv1.TaskDetail) (mcp.InputRequests, error) {
	requests := mcp.InputRequests{}
	for _, d := range tasks {
		if !d.GetWaiting() {
			continue
		}
		all, err := t.openQuestions(ctx, d.GetId())
		if status.Code(err) == codes.PermissionDenied {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		for _, q := range all {
			requests[q.GetId()] = mcp.NewElicitationInputRequest(questionForm(d, q))
		}
	}
	return requests, nil
}

// questionForm returns the form for a question of the task.
func questionForm(d *fleetv1.TaskDetail, q *fleetv1.Question) mcp.ElicitationParams {
	properties, required := map[string]any{}, "answer"
	text := func(title string) map[string]any { return map[string]any{"type": "string", "title": title} }
	switch {
	case q.GetKind() == fleetv1.Question_permission:
		required = "decision"
		properties["decision"] = map[string]any{"type": "string", "title": "Decision", "enum": []string{"allow", "deny"}}
		properties["message"] = text("Message to the agent (optional)")
	case len(q.GetOptions()) > 0:
		properties["answer"] = map[string]any{"type": "string", "title": "Answer", "enum": q.GetOptions()}
		properties["other"] = text("Another answer instead (optional)")
	default:
		properties["answer"] = text("Answer")
	}
	return mcp.ElicitationParams{
		Mode: mcp.ElicitationModeForm, Message: questionText(d, q),
		RequestedSchema: map[string]any{"type": "object", "properties": properties, "required": []string{required}},
	}
}

// maxFormTitle is how much of the title of a task a form shows, in characters.
const maxFormTitle = 80

// questionText returns the text of the form for a question. It names the task, because a person may have started several.
func questionText(d *fleetv1.TaskDetail, q *fleetv1.Question) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Agent %s", q.GetAgentName())
	if title := oneLine(d.GetSummary()); title != "" { // the task has not ended, so its summary is the title
		fmt.Fprintf(&b, " (%s)", shorten(title, maxFormTitle))
	}
	if q.GetTool() != "" {
		fmt.Fprintf(&b, " wants to use %s", q.GetTool())
	} else {
		b.WriteString(" asks")
	}
	b.WriteString(withPrefix(": ", q.GetText()))
	if q.GetInput() != nil {
		input, _ := json.Marshal(q.GetInput().AsMap()) // cannot fail: it was decoded from JSON
		b.WriteString("\n" + shorten(string(input), maxInput))
	}
	return b.String()
}

// formAnswer is a client's answer to a form.
type formAnswer struct {
	Action  string `json:"action"`
	Content struct {
		Decision string `json:"decision"`
		Message  string `json:"message"`
		Answer   string `json:"answer"`
		Other    string `json:"other"`
	} `json:"content"`
}

// answerTo returns the request that answers the question. It returns nil if the person has not answered; the question then stays open.
func (r formAnswer) answerTo(q *fleetv1.Question) *fleetv1.AnswerQuestionRequest {
	a := &fleetv1.AnswerQuestionRequest{QuestionId: q.GetId()}
	permission := q.GetKind() == fleetv1.Question_permission
	switch {
	case r.Action == string(mcp.ElicitationResponseActionDecline) && permission:
		a.Answer = "deny"
	case r.Action != string(mcp.ElicitationResponseActionAccept):
		return nil
	case permission:
		a.Answer, a.Message = r.Content.Decision, r.Content.Message
	default:
		a.Answer = cmp.Or(strings.TrimSpace(r.Content.Other), r.Content.Answer)
	}
	if a.GetAnswer() == "" {
		return nil
	}
	return a
}

// update gives the answers to the open questions of the tasks. Other answers are ignored: their questions were answered before,
// or their task has ended. An answer that the API refuses is ignored too, because a client stops the task after an error. The
// question of a refused answer stays open for others.
func (t tasks) update(ctx context.Context, r taskRef, responses map[string]json.RawMessage) error {
	tasks, err := t.details(ctx, r)
	if err != nil {
		return err
	}
	var all []*fleetv1.Question
	for _, d := range tasks {
		open, err := t.openQuestions(ctx, d.GetId())
		if err != nil {
			return err
		}
		all = append(all, open...)
	}
	errs := make([]error, len(all))
	var answering sync.WaitGroup // AnswerQuestion waits until the agent has the answer, so the answers are sent in parallel
	for i, q := range all {
		var r formAnswer
		raw, ok := responses[q.GetId()]
		if !ok || json.Unmarshal(raw, &r) != nil {
			continue
		}
		if a := r.answerTo(q); a != nil {
			answering.Go(func() { _, errs[i] = t.api.AnswerQuestion(ctx, a) })
		}
	}
	answering.Wait()
	for _, err := range errs {
		switch status.Code(err) {
		case codes.OK, codes.InvalidArgument, codes.FailedPrecondition, codes.NotFound, codes.PermissionDenied:
		default:
			return err
		}
	}
	return nil
}
