package mcp

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	fleetv1 "fleet/gen/fleet/v1"
)

// isActive reports whether the task has not ended.
func isActive(d *fleetv1.TaskDetail) bool {
	return d.GetStatus() == fleetv1.Task_pending || d.GetStatus() == fleetv1.Task_running
}

// isOpen reports whether the client still waits for the task.
func (r taskRef) isOpen(d *fleetv1.TaskDetail) bool {
	return isActive(d) || r.waitsForLanding && d.GetLanding().GetState() == fleetv1.Landing_queued
}

// showAll returns the MCP task that stands for all of these tasks.
func (t tasks) showAll(ctx context.Context, r taskRef, all []*fleetv1.TaskDetail) (*task, error) {
	begin := slices.MinFunc(all, func(a, b *fleetv1.TaskDetail) int {
		return a.GetCreatedAt().AsTime().Compare(b.GetCreatedAt().AsTime())
	})
	out := newTask(r, begin)
	for _, d := range all {
		out.LastUpdatedAt = max(out.LastUpdatedAt, timestamp(d.GetCreatedAt(), d.GetStartedAt(), d.GetCompletedAt(), d.GetLanding().GetEvidenceAt()))
	}
	open := slices.DeleteFunc(slices.Clone(all), func(d *fleetv1.TaskDetail) bool { return !r.isOpen(d) })
	stopped := !slices.ContainsFunc(all, func(d *fleetv1.TaskDetail) bool { return d.GetStatus() != fleetv1.Task_stopped })
	switch {
	case len(open) > 0:
		forms, err := t.questionForms(ctx, open...)
		if err != nil {
			return nil, err
		}
		if out.InputRequests = forms; len(forms) > 0 {
			out.Status, out.StatusMessage = taskInputRequired, waitingMessage
			return out, nil
		}
		out.StatusMessage = oneLine(fmt.Sprintf("%d of %d %s; %s", len(all)-len(open), len(all), r.doneText(), r.openText(open[0])))
	case stopped && !r.waitsForLanding:
		out.Status, out.StatusMessage = taskCancelled, oneLine(all[0].GetReason())
	default:
		out.Status, out.Result = taskCompleted, r.result(all)
	}
	return out, nil
}

// doneText describes the state of a task that the client no longer waits for.
func (r taskRef) doneText() string {
	if r.waitsForLanding {
		return "are through"
	}
	return "have ended"
}

// openText describes the current work on an open task.
func (r taskRef) openText(d *fleetv1.TaskDetail) string {
	if isActive(d) {
		return strings.TrimPrefix(d.GetAgentName()+": "+activity(d), ": ") // a task of a pool may have no agent yet
	}
	return "task " + d.GetId() + " lands" + withPrefix(": ", d.GetLanding().GetProblem())
}

// result returns the result of tasks that have ended: a text for a model, with one paragraph per task. The result is an error if no task
// has completed, or if r waits for landings and not all have landed.
func (r taskRef) result(all []*fleetv1.TaskDetail) *mcp.CallToolResult {
	good := 0
	var paragraphs []string
	for _, d := range all {
		lines := outcomeLines(d)
		if l := d.GetLanding(); r.waitsForLanding {
			if l.GetState() == fleetv1.Landing_landed {
				good++
			}
			lines = []string{lines[0], landingText(d)}
		} else if d.GetStatus() == fleetv1.Task_completed {
			good++
		}
		if d.GetSummary() != "" {
			lines = append(lines, "> "+oneLine(d.GetSummary()))
		}
		paragraphs = append(paragraphs, strings.Join(lines, "\n"))
	}
	head, isError := fmt.Sprintf("%d of %d tasks completed.", good, len(all)), good == 0
	if r.waitsForLanding {
		head, isError = fmt.Sprintf("The work of %d of %d tasks landed.", good, len(all)), good < len(all)
	}
	text := strings.Join(append([]string{head}, paragraphs...), "\n\n")
	return &mcp.CallToolResult{Result: mcp.Result{ResultType: mcp.ResultTypeComplete}, Content: []mcp.Content{mcp.NewTextContent(text)}, IsError: isError}
}

// landingText says where the work of the task has landed, or why it does not land.
func landingText(d *fleetv1.TaskDetail) string {
	l := d.GetLanding()
	switch {
	case l.GetState() == fleetv1.Landing_landed:
		return fmt.Sprintf("It landed in %s with the commit %s.", l.GetInto(), l.GetLandedSha())
	case l == nil:
		return "It does not land: " + cmp.Or(d.GetChanges().GetProblem(), "the task changed nothing") + "."
	}
	return "It does not land: " + strings.TrimSuffix(cmp.Or(l.GetProblem(), "it is in the state "+l.GetState().String()), ".") + "."
}
