package mcp

import (
	"context"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "fleet/gen/fleet/v1"
)

// tasksExtension is the id of the MCP extension for tasks (SEP-2663). mcp-go has only the tasks of revision 2025-11-25, so this
// package implements the extension: a call of a tool can be answered with a task, and tasks/get, tasks/update and tasks/cancel act
// on it. The id of an MCP task is the id of a Fleet task, or names several Fleet tasks; see taskRef. So every server on the store
// knows the task, even after a restart.
const tasksExtension = "io.modelcontextprotocol/tasks"

// These are the statuses of an MCP task that Fleet uses. The status "failed" is for errors of the protocol, so the MCP
// task of a Fleet task that has failed is completed, and its result is an error.
const (
	taskWorking       = "working"
	taskInputRequired = "input_required"
	taskCompleted     = "completed"
	taskCancelled     = "cancelled"
)

// task is a task in the form of the extension.
type task struct {
	ID            string `json:"taskId"`
	Status        string `json:"status"`
	StatusMessage string `json:"statusMessage,omitempty"`
	CreatedAt     string `json:"createdAt"`
	LastUpdatedAt string `json:"lastUpdatedAt"`
	TTL           *int   `json:"ttlMs"` // always null: a task is kept until somebody deletes it
	PollInterval  int64  `json:"pollIntervalMs,omitempty"`

	InputRequests mcp.InputRequests   `json:"inputRequests,omitempty"`
	Result        *mcp.CallToolResult `json:"result,omitempty"`
}

// Clients are told to poll a task every newTaskPoll until it is newTaskAge old, and every oldTaskPoll afterwards.
const (
	newTaskPoll = 2 * time.Second
	oldTaskPoll = 5 * time.Second
	newTaskAge  = time.Minute
)

// tasks implements the extension with calls of the API. It has no rules of its own: the API checks the rights of the caller.
type tasks struct{ api fleetv1.FleetServiceClient }

func newTasks(conn grpc.ClientConnInterface) tasks { return tasks{fleetv1.NewFleetServiceClient(conn)} }

// maxStatusMessage is the longest status message, in characters.
const maxStatusMessage = 200

// waitingMessage is the status message of a task with an open question.
const waitingMessage = "waits for an answer"

// show returns the task as it is now. It does not wait.
func (t tasks) show(ctx context.Context, r taskRef) (*task, error) {
	all, err := t.details(ctx, r)
	if err != nil {
		return nil, err
	}
	if r.waitsForLanding || len(all) > 1 {
		return t.showAll(ctx, r, all)
	}
	d := all[0]
	out := newTask(taskRef{ids: []string{d.GetId()}}, d)
	switch d.GetStatus() {
	case fleetv1.Task_completed, fleetv1.Task_failed:
		out.Status, out.Result = taskCompleted, t.result(ctx, d)
		out.StatusMessage = oneLine(d.GetSummary())
	case fleetv1.Task_stopped:
		out.Status, out.StatusMessage = taskCancelled, oneLine(d.GetReason())
	default:
		out.StatusMessage = oneLine(activity(d))
		if d.GetWaiting() {
			if out.InputRequests, err = t.questionForms(ctx, d); err != nil {
				return nil, err
			}
			if len(out.InputRequests) > 0 {
				out.Status, out.StatusMessage = taskInputRequired, waitingMessage
			}
		}
	}
	return out, nil
}

// newTask returns an MCP task with the id r, the status working, and the times of d.
func newTask(r taskRef, d *fleetv1.TaskDetail) *task {
	out := &task{
		ID: r.String(), Status: taskWorking, CreatedAt: timestamp(d.GetCreatedAt()), PollInterval: newTaskPoll.Milliseconds(),
		LastUpdatedAt: timestamp(d.GetCreatedAt(), d.GetStartedAt(), d.GetCompletedAt()),
	}
	if time.Since(d.GetCreatedAt().AsTime()) > newTaskAge {
		out.PollInterval = oldTaskPoll.Milliseconds()
	}
	return out
}

// activity describes why the task waits in the queue, or the last action of its agent. If neither is known, it returns the task's status.
func activity(d *fleetv1.TaskDetail) string {
	if waits := d.GetQueue().GetWaits(); len(waits) > 0 {
		return waits[0].GetText()
	}
	if d.GetLastStep() != "" {
		return "no progress since: " + d.GetLastStep()
	}
	lines := strings.Split(strings.TrimSpace(d.GetPreview()), "\n")
	if last := strings.Trim(lines[len(lines)-1], "[] "); last != "" {
		return last
	}
	return d.GetStatus().String()
}

// oneLine returns the text on one line, shortened to maxStatusMessage characters.
func oneLine(s string) string { return shorten(strings.Join(strings.Fields(s), " "), maxStatusMessage) }

// shorten returns at most n characters of the text. The last one is an ellipsis if the text is longer.
func shorten(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// timestamp returns the last argument that is not nil, in the format of RFC 3339.
func timestamp(times ...*timestamppb.Timestamp) string {
	var last time.Time
	for _, at := range times {
		if at != nil {
			last = at.AsTime()
		}
	}
	return last.UTC().Format(time.RFC3339)
}

// capabilities returns the capabilities that the client declares in this request. Capabilities that it has declared elsewhere do not
// count. The result is nil for a client of an older revision.
func capabilities(m *mcp.Meta) *mcp.ClientCapabilities {
	if !mcp.IsModernProtocol(m.ProtocolVersion()) {
		return nil
	}
	return m.ClientCapabilities()
}

// acceptsTasks reports whether the client accepts a task as the result of a call.
func acceptsTasks(c *mcp.ClientCapabilities) bool {
	if c == nil {
		return false
	}
	_, ok := c.Extensions[tasksExtension]
	return ok
}

// acceptsForms reports whether the client can show a form to a person. A client that declares elicitation without a mode shows forms.
func acceptsForms(c *mcp.ClientCapabilities) bool {
	return c != nil && c.Elicitation != nil && (c.Elicitation.Form != nil || c.Elicitation.URL == nil)
}
