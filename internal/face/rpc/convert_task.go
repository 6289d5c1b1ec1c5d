package rpc

import (
	"encoding/base64"
	"encoding/json"
	"unicode/utf8"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/service"
)

func taskStatusOf(s fleet.TaskStatus) fleetv1.Task_Status {
	return fleetv1.Task_Status(fleetv1.Task_Status_value[string(s)])
}

func taskOf(t *fleet.Task) *fleetv1.Task {
	return &fleetv1.Task{
		Id: t.ID, AgentName: t.AgentName, Summary: textOf(t.ShortHeadline()), Status: taskStatusOf(t.Status), Source: fleetv1.Task_Source(fleetv1.Task_Source_value[string(t.Source)]),
		CreatedAt: timeOf(t.CreatedAt), StartedAt: timeOf(t.StartedAt), CompletedAt: timeOf(t.EndedAt),
		Reason: textOf(t.Reason), PayloadSize: int32Of(t.PayloadSize), PayloadRemoved: optional(t.PayloadRemoved), CostUsd: t.CostUSD,
		Description: textOf(t.Excerpt()), Owner: t.Owner, Waiting: optional(t.OpenQuestions > 0),
		Stalled: optional(t.Stalled()), Collecting: optional(t.Collecting()), LastStep: optional(textOf(t.LastStep)), FromTerminal: optional(t.Terminal),
		ConversationLost: optional(textOf(t.ConversationLost)),
		ReasonCode:       optional(textOf(string(t.ReasonCode))), RetryAt: timeOf(t.RetryAt),
		CostBasis: optional(textOf(string(t.Spending.Basis))), DeniedCalls: optional(int32Of(t.Spending.DeniedCalls)), Labels: labelsOf(t.Labels), Landing: briefLandingOf(t.Landing),
		ParentTaskId: optional(t.ParentID), RootTaskId: optional(t.RootID), Delegated: optional(int32Of(t.Delegation.Children)),
	}
}

// taskUsageOf converts the usage of a task. It returns nil if the agent has reported none.
func taskUsageOf(u fleet.Usage) *fleetv1.TaskUsage {
	if u == (fleet.Usage{}) {
		return nil
	}
	return &fleetv1.TaskUsage{
		Model: textOf(u.Model), InputTokens: tokensOf(u.InputTokens), OutputTokens: tokensOf(u.OutputTokens), ToolCalls: int32Of(u.ToolCalls),
	}
}

// optionsOf converts the options and attachments of a task. It returns nil if no option is set.
func optionsOf(o fleet.TaskOptions, attached []fleet.Attachment) *fleetv1.TaskOptions {
	if !o.IsSet() {
		return nil
	}
	p := &fleetv1.TaskOptions{
		Model: optional(textOf(o.Model)), Effort: optional(textOf(o.Effort)), MaxCostUsd: o.MaxCostUSD, AppendSystemPrompt: optional(textOf(o.AppendSystemPrompt)),
		OutputSchema: objectOf(o.OutputSchema),
		Attachments: listOf(attached, func(a fleet.Attachment) *fleetv1.Attachment {
			return &fleetv1.Attachment{Name: a.Name, MediaType: a.MediaType, Size: int32Of(a.Size)}
		}),
	}
	if o.MaxTurns != nil {
		p.MaxTurns = new(int32Of(*o.MaxTurns))
	}
	return p
}

func attachmentsIn(all []*fleetv1.NewAttachment) []fleet.Attachment {
	var out []fleet.Attachment
	for _, a := range all {
		out = append(out, fleet.Attachment{Name: a.GetName(), MediaType: a.GetMediaType(), Size: len(a.GetContent()), Content: a.GetContent()})
	}
	return out
}

func optionsIn(r *fleetv1.StartAgentTaskRequest) (fleet.TaskOptions, error) {
	o := fleet.TaskOptions{
		Model: r.GetModel(), Effort: r.GetEffort(), MaxTurns: intIn(r.MaxTurns), MaxCostUSD: r.MaxCostUsd, AppendSystemPrompt: r.GetAppendSystemPrompt(),
	}
	if r.OutputSchema != nil {
		b, err := json.Marshal(r.OutputSchema.AsMap()) // the keys are sorted, so that a repeated request is recognised
		if err != nil {                                // NaN and infinities, which only gRPC can send
			return o, fleet.InvalidField(fleet.OptionOutputSchema, "output_schema has a number that JSON does not have").WithCause(err)
		}
		o.OutputSchema = b
	}
	return o, nil
}

func detailOf(t *service.TaskDetails) *fleetv1.TaskDetail {
	d := copyFields(&fleetv1.TaskDetail{}, taskOf(t.Task))
	d.Summary, d.Description, d.Preview, d.Turns = textOf(t.Headline()), textOf(t.Description), textOf(t.Preview), int32Of(t.Turns)
	d.Options, d.RetryOf, d.Continues = optionsOf(t.Options, t.Attachments), optional(t.RetryOf), optional(t.Options.Continues)
	d.Checks, d.Output, d.Changes = checksOf(t.Checks), objectOf(t.Output), changesOf(t.Changes)
	d.Usage, d.Models = taskUsageOf(t.Usage), listOf(t.Spending.Models, modelUsageOf)
	d.ContextTokens, d.ContextWindow = optional(int32Of(int(t.Spending.ContextTokens))), optional(int32Of(int(t.Spending.ContextWindow)))
	d.Queue, d.Landing = queuedOf(t.QueueItem), landingOf(t.Landing)
	if t.Delegation.Children > 0 {
		d.TreeCostUsd = new(t.TreeCostUSD)
	}
	if ids := t.Entry.FanOut; len(ids) > 0 {
		d.FanOut = &fleetv1.FanOut{TaskIds: ids, Kept: t.Entry.Kept}
	}
	if p := t.Payload; p != nil {
		text, encoding := payloadOf(p.Bytes)
		d.Payload, d.PayloadEncoding = &text, encoding
		if !p.Whole() {
			d.PayloadOffset = new(int32Of(p.Offset))
		}
		if p.End() < p.Size {
			d.PayloadNextOffset = new(int32Of(p.End()))
		}
	}
	if gap := t.PayloadGap; gap.Size > 0 {
		d.PayloadGapOffset, d.PayloadGapSize = new(int32Of(gap.Offset)), new(float64(gap.Size))
	}
	if t.ExitCode != nil {
		d.ExitCode = new(int32Of(*t.ExitCode))
	}
	return d
}

// payloadOf returns the bytes of a payload as text: unchanged if they are UTF-8, else in base64. The encoding is nil if
// the bytes are unchanged.
func payloadOf(payload []byte) (text string, encoding *string) {
	if utf8.Valid(payload) {
		return string(payload), nil
	}
	return base64.StdEncoding.EncodeToString(payload), new("base64")
}

func modelUsageOf(m fleet.ModelUsage) *fleetv1.ModelUsage {
	return &fleetv1.ModelUsage{
		Model: textOf(m.Model), Requests: int32Of(m.Requests), InputTokens: int32Of(int(m.Input)), CacheReadTokens: int32Of(int(m.CacheRead)),
		CacheWriteTokens: int32Of(int(m.CacheWrite)), OutputTokens: int32Of(int(m.Output)), CostUsd: m.CostUSD,
	}
}
