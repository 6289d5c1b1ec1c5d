package rpc

import (
	"context"

	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/service"
)

// ListTaskSteps lists the steps of a task.
func (f *Fleet) ListTaskSteps(ctx context.Context, r *fleetv1.ListTaskStepsRequest) (*fleetv1.ListTaskStepsResponse, error) {
	if err := portionIn(nil, r.Limit, nil).Validate(""); err != nil {
		return nil, err
	}
	q := service.StepsRequest{TaskID: r.GetTaskId(), Cursor: r.GetCursor(), Before: r.GetBefore(), Limit: int(r.GetLimit())}
	for _, k := range r.GetKinds() {
		if k == fleetv1.StepKind_step_kind_unspecified || fleetv1.StepKind_name[int32(k)] == "" {
			return nil, fleet.InvalidField("kinds", "kinds has %d: give names of step kinds, such as tool_call", k)
		}
		q.Types = append(q.Types, fleet.StepType(k.String()))
	}
	steps, err := f.svc.TaskSteps(ctx, q)
	if err != nil {
		return nil, err
	}
	resp := &fleetv1.ListTaskStepsResponse{Steps: listOf(steps.List, stepOf)}
	if steps.More {
		resp.NextCursor = proto.String(resp.Steps[len(resp.Steps)-1].GetCursor())
	}
	if steps.Previous > 0 {
		resp.PreviousCursor = proto.String(cursorOf(steps.Previous))
	}
	return resp, nil
}

func stepOf(s fleet.TaskStep) *fleetv1.Step {
	out := &fleetv1.Step{
		Cursor: cursorOf(s.Seq), Time: timeOf(s.Time), Kind: fleetv1.StepKind(fleetv1.StepKind_value[string(s.Type)]),
		Summary: textOf(s.Text), Agent: textOf(s.Agent), ParentId: textOf(s.Parent),
	}
	if s.Whole != nil {
		out.Whole = &fleetv1.OutputSpan{Offset: float64(s.Whole.Offset), Size: float64(s.Whole.Size)}
	}
	id, name := textOf(s.ID), textOf(s.Name)
	switch s.Type {
	case fleet.StepText:
		if s.Message != "" { // the text is not in the output, for example a text of a subagent
			out.Summary = textOf(s.Message)
		}
	case fleet.StepThinking:
		out.Detail = &fleetv1.Step_Thinking{Thinking: &fleetv1.StepThinking{Text: textOf(s.Message)}}
	case fleet.StepWarning:
		out.Detail = &fleetv1.Step_Warning{Warning: &fleetv1.StepWarning{Text: textOf(s.Message)}}
	case fleet.StepToolCall:
		out.Detail = &fleetv1.Step_ToolCall{ToolCall: &fleetv1.StepToolCall{Id: id, Name: name, Arguments: valueOf(s.Arguments)}}
	case fleet.StepToolResult:
		r := &fleetv1.StepToolResult{Id: id, Name: name, Result: textOf(s.Result), IsError: s.IsError}
		if s.Duration > 0 {
			r.DurationMs = new(int32Of(int(s.Duration.Milliseconds())))
		}
		out.Detail = &fleetv1.Step_ToolResult{ToolResult: r}
	case fleet.StepFileEdit:
		out.Detail = &fleetv1.Step_FileEdit{FileEdit: &fleetv1.StepFileEdit{Id: id, Path: textOf(s.Path), Patch: optional(textOf(s.Patch))}}
	case fleet.StepDenied:
		out.Detail = &fleetv1.Step_Denied{Denied: &fleetv1.StepDenied{Id: id, Name: name, Reason: textOf(s.Message)}}
	case fleet.StepQuestion:
		out.Detail = &fleetv1.Step_Question{Question: &fleetv1.StepQuestion{Id: id}}
	case fleet.StepHook:
		out.Detail = &fleetv1.Step_Hook{Hook: &fleetv1.StepHook{Name: name, Output: textOf(s.Message), IsError: s.IsError}}
	case fleet.StepBackground:
		out.Detail = &fleetv1.Step_Background{Background: &fleetv1.StepBackground{Id: id, Name: name, Status: textOf(s.Status), Summary: textOf(s.Message)}}
	case fleet.StepTodoList:
		out.Detail = &fleetv1.Step_TodoList{TodoList: &fleetv1.StepTodoList{Items: listOf(s.Items, func(item fleet.TodoItem) *fleetv1.TodoItem {
			return &fleetv1.TodoItem{Text: textOf(item.Text), Status: textOf(item.Status)}
		})}}
	default:
		setModelDetail(out, s.Step)
	}
	return out
}

// setModelDetail sets the detail of a step about requests to the model: a retry, a usage limit, a compaction, or usage.
func setModelDetail(out *fleetv1.Step, s *fleet.Step) {
	switch {
	case s.Retry != nil:
		r := &fleetv1.StepRetry{Attempt: int32Of(s.Retry.Attempt), DelayMs: int32Of(int(s.Retry.Delay.Milliseconds())), Error: textOf(s.Retry.Error)}
		if s.Retry.Limit > 0 {
			r.MaxAttempts = new(int32Of(s.Retry.Limit))
		}
		if s.Retry.Status > 0 {
			r.HttpStatus = new(int32Of(s.Retry.Status))
		}
		out.Detail = &fleetv1.Step_Retry{Retry: r}
	case s.Limit != nil:
		out.Detail = &fleetv1.Step_Limit{Limit: &fleetv1.StepLimit{
			Window: textOf(s.Limit.Window), Utilization: s.Limit.Utilization, Reached: s.Limit.Reached, ResetsAt: timeOf(s.Limit.ResetsAt),
		}}
	case s.Compaction != nil:
		out.Detail = &fleetv1.Step_Compaction{Compaction: &fleetv1.StepCompaction{
			Trigger: textOf(s.Compaction.Trigger), TokensBefore: int32Of(int(s.Compaction.Before)), TokensAfter: int32Of(int(s.Compaction.After)),
		}}
	case s.Usage != nil:
		u := &fleetv1.StepUsage{
			Model: textOf(s.Usage.Model), InputTokens: int32Of(int(s.Usage.Input)), CacheReadTokens: int32Of(int(s.Usage.CacheRead)),
			CacheWriteTokens: int32Of(int(s.Usage.CacheWrite)), OutputTokens: int32Of(int(s.Usage.Output)),
		}
		if s.Usage.CostUSD > 0 {
			u.CostUsd = &s.Usage.CostUSD
		}
		out.Detail = &fleetv1.Step_Usage{Usage: u}
	}
}
