package rpc

import (
	"context"
	"time"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/service"
)

// StartAgentTask starts a task.
func (f *Fleet) StartAgentTask(ctx context.Context, r *fleetv1.StartAgentTaskRequest) (*fleetv1.StartAgentTaskResponse, error) {
	start, err := startIn(r)
	if err != nil {
		return nil, err
	}
	t, err := f.svc.StartTask(ctx, start)
	if err != nil {
		return nil, err
	}
	return &fleetv1.StartAgentTaskResponse{Task: taskOf(t), AgentStatus: fleetv1.Agent_busy, Message: "Task started successfully"}, nil
}

// startIn returns the task of the request.
func startIn(r *fleetv1.StartAgentTaskRequest) (service.StartTaskRequest, error) {
	options, err := optionsIn(r)
	return service.StartTaskRequest{
		Agent: r.GetAgentName(), Description: r.GetTaskDescription(), RequestID: r.GetRequestId(),
		Timeout: timeLimitIn(r.TimeoutSeconds), Checks: checksIn(r), Options: options, Labels: labelsIn(r.GetLabels()), Attachments: attachmentsIn(r.GetAttachments()),
	}, err
}

// timeLimitIn returns the time limit, or 0 if none is given. For a given 0, it returns a negative limit, which the core refuses.
func timeLimitIn(seconds *int32) time.Duration {
	switch {
	case seconds == nil:
		return 0
	case *seconds == 0:
		return -1
	}
	return time.Duration(*seconds) * time.Second
}

// RetryTask repeats a task that has ended, as a new task.
func (f *Fleet) RetryTask(ctx context.Context, r *fleetv1.RetryTaskRequest) (*fleetv1.RetryTaskResponse, error) {
	t, err := f.svc.RetryTask(ctx, r.GetTaskId(), r.GetRequestId())
	if err != nil {
		return nil, err
	}
	return &fleetv1.RetryTaskResponse{Task: taskOf(t), AgentStatus: fleetv1.Agent_busy, RetryOf: t.RetryOf, Message: "Task started again successfully"}, nil
}

// StopAgentTask stops the running task of an agent.
func (f *Fleet) StopAgentTask(ctx context.Context, r *fleetv1.StopAgentTaskRequest) (*fleetv1.StopAgentTaskResponse, error) {
	t, v, message, err := f.svc.StopTask(ctx, r.GetAgentName(), r.GetRequestId())
	if err != nil {
		return nil, err
	}
	return &fleetv1.StopAgentTaskResponse{Task: taskOf(t), AgentStatus: statusOf(v.Status()), Message: message}, nil
}

// SendTaskMessage sends a message to the running task of an agent.
func (f *Fleet) SendTaskMessage(ctx context.Context, r *fleetv1.SendTaskMessageRequest) (*fleetv1.SendTaskMessageResponse, error) {
	t, message, err := f.svc.SendMessage(ctx, r.GetAgentName(), r.GetMessage(), r.GetRequestId())
	if err != nil {
		return nil, err
	}
	return &fleetv1.SendTaskMessageResponse{Task: taskOf(t), Message: message}, nil
}

// ShowAgentTaskHistory shows a page of the tasks of an agent.
func (f *Fleet) ShowAgentTaskHistory(ctx context.Context, r *fleetv1.ShowAgentTaskHistoryRequest) (*fleetv1.ShowAgentTaskHistoryResponse, error) {
	h, err := f.svc.TaskHistory(ctx, r.GetAgentName(), pageIn(r.Page, r.PageSize, r.GetCursor(), r.Limit))
	if err != nil {
		return nil, err
	}
	return &fleetv1.ShowAgentTaskHistoryResponse{
		Tasks: listOf(h.Tasks, taskOf), TotalCount: int32Of(h.Total), Page: int32Of(h.Page), PageSize: int32Of(h.PageSize), TotalPages: int32Of(h.Pages),
		NextCursor: optional(h.Next),
	}, nil
}

// ListTasks lists a page of the tasks that match the request.
func (f *Fleet) ListTasks(ctx context.Context, r *fleetv1.ListTasksRequest) (*fleetv1.ListTasksResponse, error) {
	q := service.ListTasksRequest{
		Agent: r.GetAgentName(), Last: r.GetLastAgent(), Project: r.GetProject(), Text: r.GetText(), Selector: r.GetSelector(), Root: r.GetRootTaskId(),
		Status: fleet.TaskStatus(nameIn(r.GetStatus())), Source: fleet.Source(nameIn(r.GetSource())), PageRequest: pageIn(r.Page, r.PageSize, r.GetCursor(), r.Limit),
	}
	var err error
	if q.Since, err = timeIn("since", r.GetSince()); err != nil {
		return nil, err
	}
	every := r.GetToolset() == fleetv1.ListTasksRequest_every || r.GetLastAgent() && r.GetToolset() == fleetv1.ListTasksRequest_toolset_unspecified
	if toolset := toolsetIn(r.GetToolset()); !every {
		q.Toolset = &toolset
	}
	h, err := f.svc.ListTasks(ctx, q)
	if err != nil {
		return nil, err
	}
	return &fleetv1.ListTasksResponse{
		Tasks: listOf(h.Tasks, taskOf), TotalCount: int32Of(h.Total), Page: int32Of(h.Page), PageSize: int32Of(h.PageSize), TotalPages: int32Of(h.Pages),
		TotalIsLowerBound: optional(h.More), NextCursor: optional(h.Next),
	}, nil
}

// toolsetIn returns the core's name of the toolset. An unspecified toolset means the fleet's own.
func toolsetIn(t fleetv1.ListTasksRequest_Toolset) fleet.Toolset {
	switch t {
	case fleetv1.ListTasksRequest_toolset_unspecified, fleetv1.ListTasksRequest_fleet:
		return fleet.ToolsetFleet
	}
	return fleet.Toolset(t.String())
}

// DeleteTask deletes a task.
func (f *Fleet) DeleteTask(ctx context.Context, r *fleetv1.DeleteTaskRequest) (*fleetv1.DeleteTaskResponse, error) {
	id, err := f.svc.DeleteTask(ctx, r.GetTaskId(), r.GetRequestId())
	if err != nil {
		return nil, err
	}
	return &fleetv1.DeleteTaskResponse{Message: "Task deleted successfully", TaskId: id}, nil
}

// ShowTask shows one task.
func (f *Fleet) ShowTask(ctx context.Context, r *fleetv1.ShowTaskRequest) (*fleetv1.ShowTaskResponse, error) {
	payload := portionIn(r.PayloadOffset, r.PayloadLimit, r.PayloadTail)
	if err := payload.Validate("payload_"); err != nil { // even if no payload is requested
		return nil, err
	}
	if !r.GetIncludePayload() && r.PayloadOffset == nil && r.PayloadTail == nil {
		payload = nil
	}
	t, err := f.svc.ShowTask(ctx, r.GetTaskId(), payload)
	if err != nil {
		return nil, err
	}
	d := detailOf(t)
	d.Description, err = fleet.TextFrom(d.Description, intIn(r.DescriptionOffset), "description_offset")
	return &fleetv1.ShowTaskResponse{Task: d}, err
}

// WaitTasks waits until all tasks have ended, or, as the request says, until any has ended or asks a question.
func (f *Fleet) WaitTasks(ctx context.Context, r *fleetv1.WaitTasksRequest) (*fleetv1.WaitTasksResponse, error) {
	d := service.MaxWait
	if r.TimeoutSeconds != nil {
		d = time.Duration(r.GetTimeoutSeconds()) * time.Second
	}
	if _, known := fleetv1.WaitTasksRequest_Mode_name[int32(r.GetMode())]; !known {
		return nil, fleet.InvalidField("mode", "mode is %d: it must be any or all", r.GetMode())
	}
	until := service.WaitCondition{Any: r.GetMode() == fleetv1.WaitTasksRequest_any, Question: r.GetOrQuestion()}
	tasks, done, err := f.svc.WaitTasks(ctx, r.GetTaskIds(), until, d)
	if err != nil {
		return nil, err
	}
	return &fleetv1.WaitTasksResponse{Tasks: listOf(tasks, taskOf), Done: done, Message: service.WaitMessage(tasks, done)}, nil
}
