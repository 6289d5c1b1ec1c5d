package record

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"fleet/internal/fleet"
)

// maxDescriptionHead is the largest size, in bytes, of the beginning of a description that is stored in the row of the task and shown in
// lists.
const maxDescriptionHead = 4 << 10

// TaskColumns are the columns of tasks that a write sets. TaskArgs returns their values in the same order.
const TaskColumns = `traceparent, agent_uid, agent_name, owner, source, status, reason, timeout, created_at, started_at, ended_at,
	dispatched, cursor, output_size, stop_asked, stop_reason, summary, payload_size, exit_code, cost_usd, turns, session_id,
	model, input_tokens, output_tokens, tool_calls, self_started, reported, payload_gap_offset, payload_gap_size, waiting,
	stalled_at, last_step, terminal, conversation_lost, try, reason_code, retry_at, collecting_at, spent, options, labels, retry_of, output, parent_id, root_id, delegation, description`

// TaskReadColumns are the columns of tasks that ScanTask reads. A query must add one more column, the DescriptionRest. It is NULL if
// the description is short or the rest is not needed.
const TaskReadColumns = `id, ` + TaskColumns + `, payload_removed, has_messages, has_questions, has_checks, revision`

// SelectTasks is the beginning of a query whose rows ScanTask reads.
const SelectTasks = `SELECT ` + TaskReadColumns + `, rest FROM tasks LEFT JOIN task_descriptions ON task_id = id `

// EndedCondition is the SQL condition for tasks that have ended.
const EndedCondition = `status NOT IN ('pending', 'running')`

// ActiveCondition is the SQL condition for tasks that have not ended. Queries contain it unchanged, so that the database uses
// indexes with the same condition, such as tasks_owned.
const ActiveCondition = `status IN ('pending', 'running')`

// RunningCondition is the SQL condition for tasks that occupy their agents. It is also the condition of the index that is named
// tasks_active, although pending tasks are active too.
const RunningCondition = `status = 'running'`

// DispatchedTasks is the end of a query for fleet.ReadTx.DispatchedTasks, after the condition for the agent.
const DispatchedTasks = ` AND (dispatched IS NOT NULL OR try > 0)
	ORDER BY CASE WHEN ` + RunningCondition + ` THEN 0 ELSE 1 END, coalesce(dispatched, created_at) DESC, n DESC LIMIT `

// DescriptionHead returns the beginning of the description, at most maxDescriptionHead bytes, cut at a character boundary.
func DescriptionHead(description string) string {
	if len(description) <= maxDescriptionHead {
		return description
	}
	for n := maxDescriptionHead; n > maxDescriptionHead-utf8.UTFMax; n-- {
		if utf8.RuneStart(description[n]) {
			return description[:n]
		}
	}
	return description[:maxDescriptionHead] // the description is not valid UTF-8
}

// DescriptionRest returns the part of the description that follows its DescriptionHead.
func DescriptionRest(description string) string {
	return description[len(DescriptionHead(description)):]
}

// optionsText returns the options as JSON, or "" if none is set.
func optionsText(o fleet.TaskOptions) string {
	if !o.IsSet() && o.Attached == nil && o.Continues == "" {
		return ""
	}
	b, _ := json.Marshal(o) // cannot fail: the core refuses numbers that JSON does not have
	return string(b)
}

// TaskArgs returns the values of TaskColumns.
func TaskArgs(t *fleet.Task) []any {
	return []any{
		t.Trace, nullText(t.AgentUID), t.AgentName, t.Owner, string(t.Source), string(t.Status), t.Reason, int64(t.Timeout),
		t.CreatedAt, NullTime(t.StartedAt), NullTime(t.EndedAt), NullTime(t.DispatchedAt), t.Cursor,
		t.OutputSize, NullTime(t.StopRequestedAt), t.StopReason, t.Summary, t.PayloadSize, t.ExitCode, t.CostUSD, t.Turns,
		t.SessionID, t.Usage.Model, t.Usage.InputTokens, t.Usage.OutputTokens, t.Usage.ToolCalls, t.SelfStarted, t.Reported,
		t.PayloadGap.Offset, t.PayloadGap.Size, t.OpenQuestions, NullTime(t.StalledAt), t.LastStep, t.Terminal, t.ConversationLost, t.Try,
		string(t.ReasonCode), NullTime(t.RetryAt), NullTime(t.CollectingAt), spendingArg(&t.Spending), optionsText(t.Options), labelsArg(t.Labels), t.RetryOf, string(t.Output),
		nullText(t.ParentID), nullText(t.RootID), delegationArg(&t.Delegation), DescriptionHead(t.Description),
	}
}

// spendingArg returns the spending of a task as JSON, or nil, which means NULL, if the task has spent nothing.
func spendingArg(s *fleet.Spending) any {
	if s.IsZero() {
		return nil
	}
	text, _ := marshalText(s) // finite numbers and texts can always be encoded
	return text
}

// delegationArg returns the task's part in a tree of tasks as JSON, or nil, which means NULL, if it has none.
func delegationArg(d *fleet.Delegation) any {
	if d.IsZero() {
		return nil
	}
	text, _ := marshalText(d) // as above
	return text
}

// ScanTask returns the task of a row of SelectTasks.
func ScanTask(row Scanner) (*fleet.Task, error) {
	var (
		t               fleet.Task
		rest            *string
		options, output string
	)
	err := row.Scan(&t.ID, &t.Trace, textColumn{&t.AgentUID}, &t.AgentName, &t.Owner, (*string)(&t.Source), (*string)(&t.Status), &t.Reason,
		(*int64)(&t.Timeout), (*TimeColumn)(&t.CreatedAt), (*TimeColumn)(&t.StartedAt), (*TimeColumn)(&t.EndedAt), (*TimeColumn)(&t.DispatchedAt), &t.Cursor,
		&t.OutputSize, (*TimeColumn)(&t.StopRequestedAt), &t.StopReason, &t.Summary, &t.PayloadSize, &t.ExitCode, &t.CostUSD, &t.Turns,
		&t.SessionID, &t.Usage.Model, &t.Usage.InputTokens, &t.Usage.OutputTokens, &t.Usage.ToolCalls, &t.SelfStarted, &t.Reported,
		&t.PayloadGap.Offset, &t.PayloadGap.Size, &t.OpenQuestions, (*TimeColumn)(&t.StalledAt), &t.LastStep, &t.Terminal, &t.ConversationLost, &t.Try,
		(*string)(&t.ReasonCode), (*TimeColumn)(&t.RetryAt), (*TimeColumn)(&t.CollectingAt), jsonColumn{&t.Spending}, &options, jsonColumn{&t.Labels}, &t.RetryOf, &output,
		textColumn{&t.ParentID}, textColumn{&t.RootID}, jsonColumn{&t.Delegation}, &t.Description, &t.PayloadRemoved, &t.HasMessages, &t.HasQuestions, &t.HasChecks, &t.Revision, &rest)
	if err != nil {
		return nil, err
	}
	if options != "" {
		if err := json.Unmarshal([]byte(options), &t.Options); err != nil {
			return nil, fmt.Errorf("the options of the task %s: %w", t.ID, err)
		}
	}
	if output != "" {
		t.Output = json.RawMessage(output)
	}
	if rest != nil {
		t.Description += *rest
	}
	return &t, nil
}
