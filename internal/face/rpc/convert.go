package rpc

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/service"
)

// textOf returns s as valid UTF-8, which protobuf requires. Agents can write invalid UTF-8, and one such text would
// make the whole answer fail.
func textOf(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// Enum values of the API have the names of the core's values, so the generated tables translate them.

func statusOf(s fleet.Status) fleetv1.Agent_Status {
	return fleetv1.Agent_Status(fleetv1.Agent_Status_value[string(s)])
}

func stateOf(s fleet.State) fleetv1.Agent_State {
	return fleetv1.Agent_State(fleetv1.Agent_State_value[string(s)])
}

func taskStatusOf(s fleet.TaskStatus) fleetv1.Task_Status {
	return fleetv1.Task_Status(fleetv1.Task_Status_value[string(s)])
}

func sourceOf(s fleet.Source) fleetv1.Task_Source {
	return fleetv1.Task_Source(fleetv1.Task_Source_value[string(s)])
}

// timeOf returns t in whole seconds, the precision of all times in the API. It returns nil for the zero time.
func timeOf(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return &timestamppb.Timestamp{Seconds: t.Unix()}
}

func scopeOf(s fleet.Scope) fleetv1.Scope { return fleetv1.Scope(fleetv1.Scope_value[s.String()]) }

func agentOf(v *fleet.AgentView) *fleetv1.Agent {
	a := &fleetv1.Agent{
		Name: v.Name, WorkspaceId: v.WorkspaceID, Status: statusOf(v.Status()), Role: v.Role, Project: v.Project, Spec: textOf(v.Spec),
		CreatedAt: timeOf(v.CreatedAt), UpdatedAt: timeOf(v.UpdatedAt), Metadata: metadataOf(&v.Agent),
		State: stateOf(v.State), StateReason: textOf(v.StateReason), Owner: v.Owner, Location: textOf(v.Location), Place: v.Place, Waiting: optional(v.Waiting()),
		Stalled: optional(v.Stalled()), Collecting: optional(v.Collecting()), Shares: sharesOf(v.Shares), Links: linksOf(v.Host.Links), Outdated: optional(v.Host.Outdated),
		OtherFleet: optional(textOf(v.Host.OtherFleet)), Adopted: optional(v.Host.Adopted), SessionId: optional(textOf(v.SessionID)), Labels: labelsOf(v.Labels),
		StopsAt: timeOf(v.Host.StopsAt), DormantAt: timeOf(v.Host.DormantAt), DeletionAt: timeOf(v.Host.DeletionAt),
	}
	if v.Stalled() {
		a.LastStep = optional(textOf(v.Task.LastStep))
	}
	a.CurrentTask, a.CurrentTaskId = currentOf(v)
	return a
}

func linksOf(links []fleet.Link) []*fleetv1.AgentLink {
	out := make([]*fleetv1.AgentLink, 0, len(links))
	for _, l := range links {
		out = append(out, &fleetv1.AgentLink{Name: textOf(l.Name), Url: textOf(l.URL)})
	}
	return out
}

// metadataOf returns what the workspace reports. It adds the spec if the workspace does not report one.
func metadataOf(a *fleet.Agent) map[string]string {
	m := map[string]string{"fleet_mcp_agent_spec": textOf(a.Spec)}
	for k, v := range a.Metadata {
		m[textOf(k)] = textOf(v)
	}
	return m
}

func currentOf(v *fleet.AgentView) (headline, id *wrapperspb.StringValue) {
	if v.Task == nil {
		return nil, nil
	}
	return wrapperspb.String(textOf(v.Task.Headline())), wrapperspb.String(v.Task.ID)
}

func summaryOf(v *fleet.AgentView) *fleetv1.AgentSummary {
	s := &fleetv1.AgentSummary{
		Name: v.Name, Status: statusOf(v.Status()), State: stateOf(v.State), Role: v.Role, Project: v.Project, Owner: v.Owner,
		Place: v.Place, Waiting: optional(v.Waiting()), Stalled: optional(v.Stalled()), Collecting: optional(v.Collecting()), Outdated: optional(v.Host.Outdated),
		StateReason: optional(textOf(v.StateReason)), Labels: labelsOf(v.Labels),
	}
	s.CurrentTask, s.CurrentTaskId = currentOf(v)
	return s
}

func taskOf(t *fleet.Task) *fleetv1.Task {
	return &fleetv1.Task{
		Id: t.ID, AgentName: t.AgentName, Summary: textOf(t.ShortHeadline()), Status: taskStatusOf(t.Status), Source: sourceOf(t.Source),
		CreatedAt: timeOf(t.CreatedAt), StartedAt: timeOf(t.StartedAt), CompletedAt: timeOf(t.EndedAt),
		Reason: textOf(t.Reason), PayloadSize: int32Of(t.PayloadSize), PayloadRemoved: optional(t.PayloadRemoved), CostUsd: t.CostUSD,
		Description: textOf(t.Excerpt()), Owner: t.Owner, Waiting: optional(t.OpenQuestions > 0),
		Stalled: optional(t.Stalled()), Collecting: optional(t.Collecting()), LastStep: optional(textOf(t.LastStep)), FromTerminal: optional(t.Terminal),
		ConversationLost: optional(textOf(t.ConversationLost)),
		ReasonCode:       optional(textOf(string(t.ReasonCode))), RetryAt: timeOf(t.RetryAt),
		CostBasis: optional(textOf(string(t.Spending.Basis))), DeniedCalls: optional(int32Of(t.Spending.Denied)), Labels: labelsOf(t.Labels), Landing: briefLandingOf(t.Landing),
		ParentTaskId: optional(t.ParentID), RootTaskId: optional(t.RootID), Delegated: optional(int32Of(t.Delegation.Children)),
	}
}

func tasksOf(ts []*fleet.Task) []*fleetv1.Task {
	return listOf(ts, taskOf)
}

// taskUsageOf returns nil if the agent has reported no usage.
func taskUsageOf(u fleet.Usage) *fleetv1.TaskUsage {
	if u == (fleet.Usage{}) {
		return nil
	}
	return &fleetv1.TaskUsage{
		Model: textOf(u.Model), InputTokens: tokensOf(u.InputTokens), OutputTokens: tokensOf(u.OutputTokens), ToolCalls: int32Of(u.ToolCalls),
	}
}

// optionsOf returns nil if no option is set.
func optionsOf(o fleet.TaskOptions, attached []fleet.Attachment) *fleetv1.TaskOptions {
	if !o.IsSet() {
		return nil
	}
	p := &fleetv1.TaskOptions{
		Model: optional(textOf(o.Model)), Effort: optional(textOf(o.Effort)), MaxCostUsd: o.MaxCostUSD, AppendSystemPrompt: optional(textOf(o.AppendSystemPrompt)),
		OutputSchema: inputOf(o.OutputSchema),
	}
	if o.MaxTurns != nil {
		p.MaxTurns = new(int32Of(*o.MaxTurns))
	}
	for _, a := range attached {
		p.Attachments = append(p.Attachments, &fleetv1.Attachment{Name: a.Name, MediaType: a.MediaType, Size: int32Of(a.Size)})
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
		Model: r.GetModel(), Effort: r.GetEffort(), MaxTurns: intOf(r.MaxTurns), MaxCostUSD: r.MaxCostUsd, AppendSystemPrompt: r.GetAppendSystemPrompt(),
	}
	if r.OutputSchema != nil {
		b, err := json.Marshal(r.OutputSchema.AsMap()) // the keys are sorted, so that a repeated request is recognised
		if err != nil {                                // NaN and infinities, which only gRPC can send
			return o, fleet.Invalid(fleet.ReasonInvalidArgument, fleet.OptionOutputSchema, "output_schema has a number that JSON does not have").WithCause(err)
		}
		o.OutputSchema = b
	}
	return o, nil
}

func detailOf(t *service.TaskDetails) *fleetv1.TaskDetail {
	d := &fleetv1.TaskDetail{
		Id: t.ID, AgentName: t.AgentName, Summary: textOf(t.Headline()), Status: taskStatusOf(t.Status), Source: sourceOf(t.Source),
		CreatedAt: timeOf(t.CreatedAt), StartedAt: timeOf(t.StartedAt), CompletedAt: timeOf(t.EndedAt),
		Reason: textOf(t.Reason), PayloadSize: int32Of(t.PayloadSize), CostUsd: t.CostUSD,
		PayloadRemoved: optional(t.PayloadRemoved), Waiting: optional(t.OpenQuestions > 0),
		Stalled: optional(t.Stalled()), Collecting: optional(t.Collecting()), LastStep: optional(textOf(t.LastStep)),
		Description: textOf(t.Description), Preview: textOf(t.Preview), Owner: t.Owner, Turns: int32Of(t.Turns),
		Changes: changesOf(t.Changes), FromTerminal: optional(t.Terminal), ConversationLost: optional(textOf(t.ConversationLost)),
		Usage:      taskUsageOf(t.Usage),
		ReasonCode: optional(textOf(string(t.ReasonCode))), RetryAt: timeOf(t.RetryAt), Checks: checksOf(t.Checks), Options: optionsOf(t.Options, t.Attachments), RetryOf: optional(t.RetryOf), Output: inputOf(t.Output),
		CostBasis: optional(textOf(string(t.Spending.Basis))), DeniedCalls: optional(int32Of(t.Spending.Denied)), Models: modelsOf(t.Spending.Models),
		ContextTokens: optional(int32Of(int(t.Spending.Context))), ContextWindow: optional(int32Of(int(t.Spending.Window))), Labels: labelsOf(t.Labels), Queue: queuedOf(t.Queued),
		Landing: landingOf(t.Landing), Continues: optional(t.Options.Continues),
		ParentTaskId: optional(t.ParentID), RootTaskId: optional(t.RootID), Delegated: optional(int32Of(t.Delegation.Children)),
	}
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
	name := "base64"
	return base64.StdEncoding.EncodeToString(payload), &name
}

func eventsOf(es []fleet.Event, details bool) []*fleetv1.Event {
	out := make([]*fleetv1.Event, len(es))
	for i, e := range es {
		out[i] = &fleetv1.Event{
			Cursor: cursorOf(e.Seq), Time: timeOf(e.Time), Type: fleetv1.Event_Type(fleetv1.Event_Type_value[string(e.Type)]),
			AgentName: e.AgentName, TaskId: e.TaskID, Text: e.Text, Status: e.Status, Owner: e.Owner,
		}
		if e.Type != fleet.EventTaskOutput { // the runner has repaired the text of output
			out[i].Text = textOf(e.Text)
		}
		if s := e.Step(); details && s != nil {
			out[i].Step = stepOf(fleet.TaskStep{Seq: e.Seq, Time: e.Time, Text: e.Text, Step: s})
		}
	}
	return out
}

func projectOf(p fleet.Project) *fleetv1.Project {
	out := &fleetv1.Project{
		Name: p.Name, DisplayName: p.DisplayName, Description: p.Description, TemplateId: p.TemplateID, TemplateName: p.TemplateName, Place: p.Place,
		Parameters: make([]*fleetv1.ProjectParameter, 0, len(p.Parameters)), MaxCostUsd: optional(p.MaxCost.USD()),
	}
	for _, q := range p.Parameters {
		out.Parameters = append(out.Parameters, &fleetv1.ProjectParameter{
			Name: textOf(q.Name), DisplayName: textOf(q.DisplayName), Description: textOf(q.Description), Type: string(q.Type),
			Required: q.Required, Default: textOf(q.Default), Options: textsOf(q.Options),
		})
	}
	return out
}

func roleOf(r fleet.Role) *fleetv1.Role {
	return &fleetv1.Role{Name: r.Name, DisplayName: r.DisplayName, Description: r.Description, Default: r.Default, MaxCostUsd: optional(r.MaxCost.USD())}
}

func tokenOf(t *fleet.Token) *fleetv1.Token {
	return &fleetv1.Token{
		Name: t.Name, Kind: fleetv1.Token_Kind(fleetv1.Token_Kind_value[string(t.Kind)]), Admin: t.Scope == fleet.ScopeAdmin,
		Scope: scopeOf(t.Scope), Projects: t.Projects,
		CreatedAt: timeOf(t.CreatedAt), ExpiresAt: timeOf(t.ExpiresAt), RevokedAt: timeOf(t.RevokedAt),
	}
}

// listOf returns the converted items of a list.
func listOf[From, To any](all []From, convert func(From) To) []To {
	out := make([]To, len(all))
	for i, item := range all {
		out[i] = convert(item)
	}
	return out
}

// optional returns the value of an optional field, which is absent if v is the zero value.
func optional[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

func int32Of(n int) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) } //nolint:gosec // clamped

// numberedPageOf returns the requested page of a list.
func numberedPageOf(page, size *int32) fleet.PageRequest {
	return fleet.PageRequest{Page: intOf(page), PageSize: intOf(size)}
}

// cursorPageOf returns the requested part of a list, which begins after the cursor.
func cursorPageOf(cursor string, limit *int32) fleet.PageRequest {
	return fleet.PageRequest{Cursor: cursor, Limit: intOf(limit)}
}

// portionOf returns the requested part of a payload.
func portionOf(offset, limit, tail *int32) *fleet.PortionRequest {
	return &fleet.PortionRequest{Offset: intOf(offset), Limit: intOf(limit), Tail: intOf(tail)}
}

func intOf(n *int32) *int {
	if n == nil {
		return nil
	}
	return new(int(*n))
}

// timeIn returns the time in a request's field, or the zero time if at is nil. It fails if the time is out of range.
func timeIn(field string, at *timestamppb.Timestamp) (time.Time, error) {
	if at == nil {
		return time.Time{}, nil
	}
	if err := at.CheckValid(); err != nil {
		return time.Time{}, fleet.Invalid(fleet.ReasonInvalidArgument, field, "%s is not a time from year 1 to 9999", field).WithCause(err)
	}
	return at.AsTime(), nil
}

func modelsOf(models []fleet.ModelUsage) []*fleetv1.ModelUsage {
	out := make([]*fleetv1.ModelUsage, len(models))
	for i, m := range models {
		out[i] = &fleetv1.ModelUsage{
			Model: textOf(m.Model), Requests: int32Of(m.Requests), InputTokens: int32Of(int(m.Input)), CacheReadTokens: int32Of(int(m.CacheRead)),
			CacheWriteTokens: int32Of(int(m.CacheWrite)), OutputTokens: int32Of(int(m.Output)), CostUsd: m.CostUSD,
		}
	}
	return out
}
