package rpc

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/service"
)

// QueueTask adds a task to the queue.
func (f *Fleet) QueueTask(ctx context.Context, r *fleetv1.QueueTaskRequest) (*fleetv1.QueueTaskResponse, error) {
	q, err := queueTaskIn(r)
	if err != nil {
		return nil, err
	}
	t, err := f.svc.QueueTask(ctx, q)
	if err != nil {
		return nil, err
	}
	return &fleetv1.QueueTaskResponse{Task: taskOf(t), Message: "Task queued successfully"}, nil
}

// RunTask queues a task, and streams its events until it has ended or wait_seconds have passed. The last message has the task.
func (f *Fleet) RunTask(r *fleetv1.RunTaskRequest, out grpc.ServerStreamingServer[fleetv1.RunTaskResponse]) error {
	q, err := queueTaskIn(copyFields(&fleetv1.QueueTaskRequest{}, r))
	if err != nil {
		return err
	}
	var wait *time.Duration
	if r.WaitSeconds != nil {
		wait = new(time.Duration(r.GetWaitSeconds()) * time.Second)
	}
	t, err := f.svc.RunTask(out.Context(), q, wait, func(t *fleet.Task) error {
		return out.Send(&fleetv1.RunTaskResponse{Type: fleetv1.RunTaskResponse_progress, Task: taskOf(t), Message: "Task queued successfully"})
	}, func(e fleet.Event) error {
		return out.Send(&fleetv1.RunTaskResponse{Type: fleetv1.RunTaskResponse_progress, Events: eventsOf([]fleet.Event{e}, false)})
	})
	if err != nil {
		return err
	}
	return out.Send(&fleetv1.RunTaskResponse{Type: fleetv1.RunTaskResponse_result, Task: taskOf(t), Message: service.RunMessage(t)})
}

func queueTaskIn(r *fleetv1.QueueTaskRequest) (q service.QueueTaskRequest, err error) {
	start, err := startIn(copyFields(&fleetv1.StartAgentTaskRequest{}, r))
	if err != nil {
		return q, err
	}
	q = service.QueueTaskRequest{
		StartTaskRequest: start, Hold: r.GetHold(), Wake: nameIn(r.GetWake()), Pool: r.GetPool(), Project: r.GetProject(), Role: r.GetRole(),
		NewAgent: r.GetNewAgent(), MaxIdle: timeLimitIn(r.MaxIdleSeconds), Entry: fleet.QueueEntry{
			Priority: int(r.GetPriority()), MaxAttempts: countIn(r.MaxAttempts), ExclusiveKey: r.GetExclusive(), Dependencies: dependenciesIn(r.GetDependsOn()),
		},
	}
	switch r.GetOnParentEnd() {
	case fleetv1.Delegated_detach:
		q.OnParentEnd = fleet.ParentEndDetach
	case fleetv1.Delegated_stop:
		q.OnParentEnd = fleet.ParentEndStop
	}
	if q.Entry.NotBefore, err = timeIn("not_before", r.GetNotBefore()); err != nil {
		return q, err
	}
	q.Entry.Expires, err = timeIn("expires", r.GetExpires())
	return q, err
}

func dependenciesIn(all []*fleetv1.Dependency) (dependencies []fleet.Dependency) {
	for _, d := range all {
		dependencies = append(dependencies, fleet.Dependency{TaskID: d.GetTaskId(), AnyEnd: d.GetEnded(), Result: d.GetGiveResult()})
	}
	return dependencies
}

// UpdateQueuedTask changes a pending task.
func (f *Fleet) UpdateQueuedTask(ctx context.Context, r *fleetv1.UpdateQueuedTaskRequest) (*fleetv1.UpdateQueuedTaskResponse, error) {
	q := service.UpdateQueuedTaskRequest{TaskID: r.GetTaskId(), Priority: intIn(r.Priority), Exclusive: r.Exclusive, RequestID: r.GetRequestId()}
	var err error
	if q.NotBefore, err = optionalTimeIn("not_before", r.GetNotBefore()); err != nil {
		return nil, err
	}
	if q.Expires, err = optionalTimeIn("expires", r.GetExpires()); err != nil {
		return nil, err
	}
	if len(r.GetDependsOn()) > 0 {
		q.After = new(dependenciesIn(r.GetDependsOn()))
	}
	t, err := f.svc.UpdateQueuedTask(ctx, q)
	if err != nil {
		return nil, err
	}
	return &fleetv1.UpdateQueuedTaskResponse{Task: taskOf(t), Message: "Task changed successfully"}, nil
}

// optionalTimeIn returns nil if no time is given.
func optionalTimeIn(field string, at *timestamppb.Timestamp) (*time.Time, error) {
	if at == nil {
		return nil, nil //nolint:nilnil // nil means that the value stays as it is
	}
	t, err := timeIn(field, at)
	return &t, err
}

// HoldTask keeps a pending task from starting until ReleaseTask.
func (f *Fleet) HoldTask(ctx context.Context, r *fleetv1.HoldTaskRequest) (*fleetv1.HoldTaskResponse, error) {
	t, err := f.svc.HoldTask(ctx, r.GetTaskId(), r.GetRequestId())
	if err != nil {
		return nil, err
	}
	return &fleetv1.HoldTaskResponse{Task: taskOf(t), Message: "Task is held"}, nil
}

// ReleaseTask lets a held task start again.
func (f *Fleet) ReleaseTask(ctx context.Context, r *fleetv1.ReleaseTaskRequest) (*fleetv1.ReleaseTaskResponse, error) {
	t, err := f.svc.ReleaseTask(ctx, r.GetTaskId(), r.GetRequestId())
	if err != nil {
		return nil, err
	}
	return &fleetv1.ReleaseTaskResponse{Task: taskOf(t), Message: "Task is not held"}, nil
}

// StopTask stops a task.
func (f *Fleet) StopTask(ctx context.Context, r *fleetv1.StopTaskRequest) (*fleetv1.StopTaskResponse, error) {
	t, message, err := f.svc.StopTaskByID(ctx, r.GetTaskId(), r.GetRequestId())
	if err != nil {
		return nil, err
	}
	return &fleetv1.StopTaskResponse{Task: taskOf(t), Message: message}, nil
}

// ListQueue lists pending tasks.
func (f *Fleet) ListQueue(ctx context.Context, r *fleetv1.ListQueueRequest) (*fleetv1.ListQueueResponse, error) {
	l, err := f.svc.ListQueue(ctx, service.ListQueueRequest{
		Agent: r.GetAgentName(), Selector: r.GetSelector(), PageRequest: cursorPageIn(r.GetCursor(), r.Limit),
	})
	if err != nil {
		return nil, err
	}
	return &fleetv1.ListQueueResponse{Tasks: listOf(l.Items, queuedTaskOf), TotalCount: int32Of(l.Total), NextCursor: optional(l.Next)}, nil
}

func queuedTaskOf(i service.QueueItem) *fleetv1.QueuedTask {
	row := &fleetv1.QueuedTask{
		Id: i.ID, AgentName: i.AgentName, Owner: i.Owner, Summary: textOf(i.Title()), CreatedAt: timeOf(i.CreatedAt), Queue: queuedOf(&i),
	}
	if i.Access != fleet.AccessOwn {
		row.Access = accessOf(i.Access).Enum()
	}
	return row
}

// ShowQueue shows how many tasks are pending, and why they wait.
func (f *Fleet) ShowQueue(ctx context.Context, _ *fleetv1.ShowQueueRequest) (*fleetv1.ShowQueueResponse, error) {
	summary, err := f.svc.ShowQueue(ctx)
	if err != nil {
		return nil, err
	}
	return &fleetv1.ShowQueueResponse{
		Pending: int32Of(summary.Pending), Reasons: reasonsOf(summary), Oldest: timeOf(summary.Oldest), OvertakeSeconds: int32Of(int(summary.MaxOvertake.Seconds())), Paused: pauseOf(summary.Paused),
	}, nil
}

// reasonsOf returns how many tasks wait for each reason, the most frequent reason first. Each task counts only for its first reason.
func reasonsOf(summary *service.QueueSummary) []*fleetv1.WaitCount {
	all := []*fleetv1.WaitCount{}
	for reason, n := range summary.Reasons {
		all = append(all, &fleetv1.WaitCount{Reason: string(reason), Tasks: int32Of(n)})
	}
	slices.SortFunc(all, func(a, b *fleetv1.WaitCount) int {
		return cmp.Or(cmp.Compare(b.GetTasks(), a.GetTasks()), strings.Compare(a.GetReason(), b.GetReason()))
	})
	return all
}

// queuedOf returns nil if the task is not pending.
func queuedOf(i *service.QueueItem) *fleetv1.Queued {
	if i == nil {
		return nil
	}
	e := i.Entry
	return &fleetv1.Queued{
		Pool: optional(e.Target.Pool), Project: optional(e.Target.Project), Role: optional(e.Target.Role),
		Position: int32Of(i.Position), Priority: int32Of(e.Priority), NotBefore: timeOf(e.NotBefore), Expires: timeOf(e.Expires),
		HeldBy: optional(e.HeldBy), Exclusive: optional(textOf(e.ExclusiveKey)),
		Waits: listOf(i.Waits, func(w fleet.Wait) *fleetv1.Wait {
			return &fleetv1.Wait{Reason: string(w.Reason), Subject: textOf(w.Subject), Text: textOf(w.Text), Since: timeOf(w.Since), Until: timeOf(w.Until), Next: optional(w.Next)}
		}),
		Attempts: listOf(e.Attempts, func(a fleet.Attempt) *fleetv1.Attempt {
			return &fleetv1.Attempt{Number: int32Of(a.Try + 1), FailedAt: timeOf(a.At), ReasonCode: string(a.Code), Reason: textOf(a.Reason)}
		}),
		DependsOn: listOf(e.Dependencies, func(d fleet.Dependency) *fleetv1.Dependency {
			return &fleetv1.Dependency{TaskId: d.TaskID, Ended: d.AnyEnd, GiveResult: d.Result}
		}),
	}
}
