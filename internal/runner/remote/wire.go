package remote

import (
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	runnerv1 "fleet/gen/fleet/runner/v1"
	"fleet/internal/fleet"
)

func agentToProto(a fleet.Agent) *runnerv1.Agent {
	return &runnerv1.Agent{
		Uid: a.UID, Name: a.Name, Owner: a.Owner, Project: a.Project, Role: a.Role, Spec: a.Spec, OneTask: a.HasOneRun(),
	}
}

func agentFromProto(a *runnerv1.Agent) fleet.Agent {
	return fleet.Agent{
		UID: a.GetUid(), Name: a.GetName(), Owner: a.GetOwner(), Project: a.GetProject(), Role: a.GetRole(), Spec: a.GetSpec(),
		OneTask: a.GetOneTask(),
	}
}

func runToProto(r fleet.Run) *runnerv1.Run {
	p := &runnerv1.Run{
		TaskId: r.TaskID, Prompt: r.Prompt, Timeout: durationpb.New(r.Timeout), Started: timeToProto(r.StartedAt), Again: r.Again,
		SelfStarted: r.SelfStarted, Linger: durationpb.New(r.Linger), Continues: r.Continues, Feedback: r.Feedback, Allowed: r.AllowedRules,
		Conversation: r.Conversation, Brief: r.Brief,
	}
	if report := r.FleetEndpoint; report != nil {
		p.Report = &runnerv1.Report{Url: report.URL, Token: report.Token}
	}
	if o := r.Options; o.IsSet() {
		p.Options = &runnerv1.RunOptions{Model: o.Model, Effort: o.Effort, AppendSystemPrompt: o.AppendSystemPrompt, OutputSchema: o.OutputSchema}
		if o.MaxTurns != nil {
			p.Options.MaxTurns = int32(*o.MaxTurns)
		}
		if o.MaxCostUSD != nil {
			p.Options.MaxCostUsd = *o.MaxCostUSD
		}
	}
	for _, a := range r.Attachments {
		p.Attachments = append(p.Attachments, &runnerv1.Attachment{Name: a.Name, MediaType: a.MediaType, Content: a.Content})
	}
	for _, m := range r.Messages {
		p.Messages = append(p.Messages, &runnerv1.Message{Id: m.ID, Text: m.Text})
	}
	return p
}

func runFromProto(p *runnerv1.Run) fleet.Run {
	r := fleet.Run{
		TaskID: p.GetTaskId(), Prompt: p.GetPrompt(), Timeout: p.GetTimeout().AsDuration(), StartedAt: timeFromProto(p.GetStarted()),
		Again: p.GetAgain(), SelfStarted: p.GetSelfStarted(), Linger: p.GetLinger().AsDuration(), Continues: p.GetContinues(),
		Feedback: p.GetFeedback(), AllowedRules: p.GetAllowed(), Conversation: p.GetConversation(), Brief: p.GetBrief(),
	}
	if report := p.GetReport(); report != nil {
		r.FleetEndpoint = &fleet.ServerEndpoint{URL: report.GetUrl(), Token: report.GetToken()}
	}
	if o := p.GetOptions(); o != nil {
		r.Options = fleet.TaskOptions{Model: o.GetModel(), Effort: o.GetEffort(), AppendSystemPrompt: o.GetAppendSystemPrompt(), OutputSchema: o.GetOutputSchema()}
		if n := int(o.GetMaxTurns()); n != 0 {
			r.Options.MaxTurns = &n
		}
		if usd := o.GetMaxCostUsd(); usd != 0 {
			r.Options.MaxCostUSD = &usd
		}
	}
	for _, a := range p.GetAttachments() {
		r.Attachments = append(r.Attachments, fleet.Attachment{Name: a.GetName(), MediaType: a.GetMediaType(), Size: len(a.GetContent()), Content: a.GetContent()})
	}
	r.Options.Attachments = len(r.Attachments)
	for _, m := range p.GetMessages() {
		r.Messages = append(r.Messages, fleet.Message{ID: m.GetId(), TaskID: r.TaskID, Text: m.GetText()})
	}
	return r
}

func outputToProto(o fleet.Output) *runnerv1.Output {
	p := &runnerv1.Output{Cursor: o.Cursor, Step: o.IsStep, Text: o.Text, Data: o.Data, Open: int32(o.RunningToolCalls), Terminal: o.Terminal, ConversationLost: toValidUTF8(o.ConversationLost)}
	if o.Question != nil {
		p.Question = questionToProto(*o.Question)
	}
	return p
}

func outputFromProto(p *runnerv1.Output) fleet.Output {
	o := fleet.Output{Cursor: p.GetCursor(), IsStep: p.GetStep(), Text: p.GetText(), Data: p.GetData(), RunningToolCalls: int(p.GetOpen()), Terminal: p.GetTerminal(), ConversationLost: p.GetConversationLost()}
	if q := p.GetQuestion(); q != nil {
		o.Question = new(questionFromProto(q))
	}
	return o
}

func questionToProto(q fleet.Question) *runnerv1.Question {
	return &runnerv1.Question{
		Id: q.ID, Kind: string(q.Kind), Status: string(q.Status), Text: toValidUTF8(q.Text), Tool: toValidUTF8(q.Tool), Input: q.Input, Options: q.Options, Rules: q.Rules, Remember: string(q.Remember),
		AskedAt: timeToProto(q.AskedAt), ExpiresAt: timeToProto(q.ExpiresAt), Answer: q.Answer, Message: q.Message, AnsweredBy: q.AnsweredBy,
		AnsweredAt: timeToProto(q.AnsweredAt),
	}
}

func questionFromProto(p *runnerv1.Question) fleet.Question {
	return fleet.Question{
		ID: p.GetId(), Kind: fleet.QuestionKind(p.GetKind()), Status: fleet.QuestionStatus(p.GetStatus()), Text: p.GetText(), Tool: p.GetTool(),
		Input: p.GetInput(), Options: p.GetOptions(), Rules: p.GetRules(), Remember: fleet.RememberScope(p.GetRemember()), AskedAt: timeFromProto(p.GetAskedAt()), ExpiresAt: timeFromProto(p.GetExpiresAt()),
		Answer: p.GetAnswer(), Message: p.GetMessage(), AnsweredBy: p.GetAnsweredBy(), AnsweredAt: timeFromProto(p.GetAnsweredAt()),
	}
}

var statuses = map[fleet.TaskStatus]runnerv1.Outcome_Status{
	fleet.TaskCompleted: runnerv1.Outcome_completed,
	fleet.TaskFailed:    runnerv1.Outcome_failed,
	fleet.TaskStopped:   runnerv1.Outcome_stopped,
}

func outcomeToProto(o fleet.Outcome) *runnerv1.Outcome {
	p := &runnerv1.Outcome{
		Status: statuses[o.Status], Reason: toValidUTF8(o.Reason), Summary: toValidUTF8(o.Summary), Reported: o.Reported, Payload: o.Payload,
		HasPayload: o.Payload != nil, GapOffset: int64(o.Gap.Offset), GapSize: o.Gap.Size, EndedAt: timeToProto(o.EndedAt),
		CostUsd: o.CostUSD, CostPartial: o.CostPartial, Turns: int32(o.Turns), Model: toValidUTF8(o.Usage.Model), InputTokens: o.Usage.InputTokens,
		OutputTokens: o.Usage.OutputTokens, ToolCalls: int32(o.Usage.ToolCalls), Terminal: o.Terminal, Conversation: o.HasConversation, SessionId: toValidUTF8(o.SessionID),
		ReasonCode: toValidUTF8(string(o.ReasonCode)), RetryAt: timeToProto(o.RetryAt), Output: o.Output,
	}
	if o.ExitCode != nil {
		p.ExitCode = new(int32(*o.ExitCode))
	}
	return p
}

func outcomeFromProto(p *runnerv1.Outcome) fleet.Outcome {
	o := fleet.Outcome{
		Status: fleet.TaskFailed, Reason: p.GetReason(), Summary: p.GetSummary(), Reported: p.GetReported(), Payload: p.GetPayload(),
		Gap: fleet.Gap{Offset: int(p.GetGapOffset()), Size: p.GetGapSize()}, EndedAt: timeFromProto(p.GetEndedAt()),
		CostUSD: p.GetCostUsd(), CostPartial: p.GetCostPartial(), Turns: int(p.GetTurns()), Terminal: p.GetTerminal(), HasConversation: p.GetConversation(), SessionID: p.GetSessionId(),
		ReasonCode: fleet.ReasonCode(p.GetReasonCode()), RetryAt: timeFromProto(p.GetRetryAt()), Output: p.GetOutput(),
		Usage: fleet.Usage{
			Model: p.GetModel(), InputTokens: p.GetInputTokens(), OutputTokens: p.GetOutputTokens(), ToolCalls: int(p.GetToolCalls()),
		},
	}
	known := false
	for status, number := range statuses {
		if number == p.GetStatus() {
			o.Status, known = status, true
		}
	}
	if !known && o.Reason == "" {
		o.Reason = "the runner reports an end of the run that this version of Fleet does not know: upgrade Fleet"
	}
	if p.GetHasPayload() && o.Payload == nil {
		o.Payload = []byte{}
	}
	if p.ExitCode != nil {
		o.ExitCode = new(int(p.GetExitCode()))
	}
	return o
}

// toValidUTF8 returns a program's text as valid UTF-8, which the wire requires.
func toValidUTF8(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func timeToProto(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func timeFromProto(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}
