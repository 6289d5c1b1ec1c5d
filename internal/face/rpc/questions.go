package rpc

import (
	"context"
	"encoding/json"

	"google.golang.org/protobuf/types/known/structpb"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/service"
)

// ListQuestions lists questions of agents.
func (f *Fleet) ListQuestions(ctx context.Context, r *fleetv1.ListQuestionsRequest) (*fleetv1.ListQuestionsResponse, error) {
	q, err := f.svc.ListQuestions(ctx, service.ListQuestionsRequest{
		Agent: r.GetAgentName(), TaskID: r.GetTaskId(), IncludeAnswered: r.GetIncludeAnswered(), PageRequest: cursorPageIn(r.GetCursor(), r.Limit),
	})
	if err != nil {
		return nil, err
	}
	out := &fleetv1.ListQuestionsResponse{TotalCount: int32Of(q.Total), NextCursor: optional(q.Next)}
	for i, question := range q.Questions {
		row := questionOf(question)
		if q.Access[i] != fleet.AccessOwn {
			row.Access = accessOf(q.Access[i]).Enum()
		}
		out.Questions = append(out.Questions, row)
	}
	return out, nil
}

// AnswerQuestion answers a question.
func (f *Fleet) AnswerQuestion(ctx context.Context, r *fleetv1.AnswerQuestionRequest) (*fleetv1.AnswerQuestionResponse, error) {
	remember, ok := rememberValues[r.GetRemember()]
	if !ok {
		return nil, fleet.InvalidField("remember", "remember must be once, task or agent")
	}
	q, message, err := f.svc.AnswerQuestion(ctx, service.AnswerQuestionRequest{
		ID: r.GetQuestionId(), Answer: r.GetAnswer(), Message: r.GetMessage(), RequestID: r.GetRequestId(), Remember: remember,
	})
	if err != nil {
		return nil, err
	}
	return &fleetv1.AnswerQuestionResponse{Question: questionOf(q), Message: message}, nil
}

// rememberValues are the values of remember in requests.
var rememberValues = map[fleetv1.Question_Remember]fleet.RememberScope{
	fleetv1.Question_remember_unspecified: "", fleetv1.Question_once: fleet.RememberOnce, fleetv1.Question_task: fleet.RememberTask, fleetv1.Question_agent: fleet.RememberAgent,
}

// RemoveAgentRule removes a rule that somebody has allowed an agent in the answer to a question.
func (f *Fleet) RemoveAgentRule(ctx context.Context, r *fleetv1.RemoveAgentRuleRequest) (*fleetv1.RemoveAgentRuleResponse, error) {
	a, message, err := f.svc.RemoveRule(ctx, service.RemoveRuleRequest{Agent: r.GetAgentName(), Rule: r.GetRule(), RequestID: r.GetRequestId()})
	if err != nil {
		return nil, err
	}
	return &fleetv1.RemoveAgentRuleResponse{Rules: listOf(a.Rules, ruleOf), Message: message}, nil
}

func ruleOf(r fleet.AllowedRule) *fleetv1.AllowedRule {
	return &fleetv1.AllowedRule{Rule: textOf(r.Rule), TaskId: optional(r.TaskID), AllowedBy: r.By, AllowedAt: timeOf(r.At)}
}

func questionOf(q *fleet.Question) *fleetv1.Question {
	out := &fleetv1.Question{
		Id: q.ID, TaskId: q.TaskID, AgentName: q.AgentName, Owner: q.Owner,
		Kind:   fleetv1.Question_Kind(fleetv1.Question_Kind_value[string(q.Kind)]),
		Status: fleetv1.Question_Status(fleetv1.Question_Status_value[string(q.Status)]),
		Text:   textOf(q.Text), Tool: textOf(q.Tool), Input: objectOf(q.Input), AskedAt: timeOf(q.AskedAt), ExpiresAt: timeOf(q.ExpiresAt),
		Answer: optional(textOf(q.Answer)), Message: optional(textOf(q.Message)), AnsweredBy: optional(q.AnsweredBy), AnsweredAt: timeOf(q.AnsweredAt),
		Rules: listOf(q.Rules, textOf), Options: listOf(q.Options, textOf),
	}
	if v := fleetv1.Question_Remember_value[string(q.Remember)]; v != 0 {
		out.Remember = fleetv1.Question_Remember(v).Enum()
	}
	return out
}

// objectOf converts a JSON object. It returns nil if b is empty or not an object. The JSON null becomes an object without fields.
func objectOf(b []byte) *structpb.Struct {
	var m map[string]any
	if len(b) == 0 || json.Unmarshal(b, &m) != nil { // Unmarshal replaces invalid UTF-8
		return nil
	}
	s, err := structpb.NewStruct(m)
	if err != nil {
		return nil
	}
	return s
}
