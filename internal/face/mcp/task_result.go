package mcp

import (
	"context"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	fleetv1 "fleet/gen/fleet/v1"
)

// maxAnswer is the size of the largest payload that the result of a task contains, in bytes.
const maxAnswer = 32 << 10

// result returns the result of a task that has ended: a text for a model, and a link to the payload if the text does not contain it.
// It has no structured content, which would hide the text from the model.
func (t tasks) result(ctx context.Context, d *fleetv1.TaskDetail) *mcp.CallToolResult {
	lines := outcomeLines(d)
	answer, whole := t.answer(ctx, d)
	content := []mcp.Content{mcp.NewTextContent(strings.TrimSpace(answer + "\n\n" + strings.Join(lines, "\n")))}
	if d.GetPayloadSize() > 0 && !whole {
		link := mcp.NewResourceLink("fleet://task/"+d.GetId()+"/payload", "payload of task "+d.GetId(), "The whole result; show_task with include_payload reads it too.", "text/plain")
		content = append(content, link)
	}
	return &mcp.CallToolResult{Result: mcp.Result{ResultType: mcp.ResultTypeComplete}, Content: content, IsError: d.GetStatus() == fleetv1.Task_failed}
}

// outcomeLines returns lines about the end of the task: its status and reason, checks, changes and cost.
func outcomeLines(d *fleetv1.TaskDetail) []string {
	lines := []string{fmt.Sprintf("Task %s%s: %s%s.", d.GetId(), withPrefix(" of ", d.GetAgentName()), d.GetStatus(), withPrefix(": ", strings.TrimSuffix(d.GetReason(), ".")))}
	if d.GetReasonCode() != "" {
		lines = append(lines, "Reason: "+d.GetReasonCode()+".")
	}
	if checks := d.GetChecks().GetResults(); len(checks) > 0 {
		lines = append(lines, checksText(checks))
	}
	if c := d.GetChanges(); c.GetFiles() > 0 {
		lines = append(lines, fmt.Sprintf("Changed files: %d, +%d -%d%s; show_task_changes has them.", c.GetFiles(), c.GetInsertions(), c.GetDeletions(), withPrefix(", on branch ", c.GetBranch())))
	}
	if d.GetCostUsd() > 0 {
		lines = append(lines, fmt.Sprintf("Cost: $%.4f.", d.GetCostUsd()))
	}
	return lines
}

// answer returns the agent's report. If the payload is the report and can be read, answer returns the payload, and whole is
// true. Otherwise it returns the summary, which may be only the beginning of the report. A failed task without a payload has no
// report: answer returns "" and true.
func (t tasks) answer(ctx context.Context, d *fleetv1.TaskDetail) (text string, whole bool) {
	summary := d.GetSummary()
	begin, cut := strings.CutSuffix(summary, "…")
	if d.GetStatus() == fleetv1.Task_failed && d.GetPayloadSize() == 0 {
		return "", true // the summary is the headline of the description
	}
	if d.GetPayloadSize() == 0 || d.GetPayloadRemoved() || d.GetPayloadSize() > maxAnswer && cut {
		return summary, false
	}
	limit := int32(maxAnswer)
	r, err := t.api.ShowTask(ctx, &fleetv1.ShowTaskRequest{TaskId: d.GetId(), IncludePayload: true, PayloadLimit: &limit})
	payload := strings.TrimSpace(r.GetTask().GetPayload())
	if err != nil || r.GetTask().GetPayloadEncoding() != "" || r.GetTask().PayloadNextOffset != nil || !strings.HasPrefix(payload, strings.TrimSpace(begin)) {
		return summary, false
	}
	if !cut && payload != strings.TrimSpace(summary) {
		return summary, false
	}
	return payload, true
}

// checksText says how many checks have passed, and names the other checks with their status.
func checksText(checks []*fleetv1.TaskCheck) string {
	passed, others := 0, []string{}
	for _, c := range checks {
		if c.GetStatus() == fleetv1.TaskCheck_passed {
			passed++
			continue
		}
		others = append(others, fmt.Sprintf("%q %s", c.GetCommand(), strings.ReplaceAll(c.GetStatus().String(), "_", " ")))
	}
	return fmt.Sprintf("Checks: %d of %d passed%s.", passed, len(checks), withPrefix("; ", strings.Join(others, ", ")))
}

// withPrefix returns the prefix and the text, or "" if the text is empty.
func withPrefix(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}
