package rpc

import (
	"bytes"
	"context"
	"encoding/json"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/service"
)

// ParseScheduledTask parses the stored task of a schedule. The text is the JSON form of a QueueTaskRequest, because later versions of
// the program can read that too. Unknown fields are ignored.
func ParseScheduledTask(text json.RawMessage) (service.QueueTaskRequest, error) {
	r := &fleetv1.QueueTaskRequest{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, r); err != nil {
		return service.QueueTaskRequest{}, err
	}
	return queueTaskIn(r)
}

// scheduledTaskIn returns nil if no task is given.
func scheduledTaskIn(r *fleetv1.QueueTaskRequest) (*service.ScheduledTask, error) {
	if r == nil {
		return nil, nil //nolint:nilnil // nil means that the task stays as it is
	}
	q, err := queueTaskIn(r)
	if err != nil {
		return nil, err
	}
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(r)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = json.Compact(&b, text) // protojson inserts spaces at random
	return &service.ScheduledTask{QueueTaskRequest: q, JSON: b.Bytes()}, err
}

// CreateSchedule adds a schedule.
func (f *Fleet) CreateSchedule(ctx context.Context, r *fleetv1.CreateScheduleRequest) (*fleetv1.CreateScheduleResponse, error) {
	q := service.CreateScheduleRequest{RequestID: r.GetRequestId(), Schedule: fleet.Schedule{
		Name: r.GetName(), Cron: r.GetCron(), TimeZone: r.GetTimeZone(), OnMissed: fleet.MissedPolicy(r.GetMissed()), Overlap: fleet.OverlapPolicy(r.GetOverlap()), Labels: labelsIn(r.GetLabels()),
	}}
	var err error
	if q.At, err = timeIn("at", r.GetAt()); err != nil {
		return nil, err
	}
	task, err := scheduledTaskIn(r.GetTask())
	if err != nil {
		return nil, err
	}
	if task != nil {
		q.Task = *task
	}
	v, err := f.svc.CreateSchedule(ctx, q)
	if err != nil {
		return nil, err
	}
	out, err := scheduleOf(v)
	return &fleetv1.CreateScheduleResponse{Schedule: out, Message: "Schedule created successfully"}, err
}

// UpdateSchedule changes a schedule.
func (f *Fleet) UpdateSchedule(ctx context.Context, r *fleetv1.UpdateScheduleRequest) (*fleetv1.UpdateScheduleResponse, error) {
	q := service.UpdateScheduleRequest{Name: r.GetName(), Cron: r.Cron, TimeZone: r.TimeZone, Paused: r.Paused, Labels: labelsIn(r.GetLabels()), RemoveLabels: r.GetRemoveLabels(), RequestID: r.GetRequestId()}
	if r.Missed != nil {
		q.Missed = new(fleet.MissedPolicy(r.GetMissed()))
	}
	if r.Overlap != nil {
		q.Overlap = new(fleet.OverlapPolicy(r.GetOverlap()))
	}
	var err error
	if q.At, err = optionalTimeIn("at", r.GetAt()); err != nil {
		return nil, err
	}
	if q.Task, err = scheduledTaskIn(r.GetTask()); err != nil {
		return nil, err
	}
	v, err := f.svc.UpdateSchedule(ctx, q)
	if err != nil {
		return nil, err
	}
	out, err := scheduleOf(v)
	return &fleetv1.UpdateScheduleResponse{Schedule: out, Message: "Schedule changed successfully"}, err
}

// DeleteSchedule deletes a schedule.
func (f *Fleet) DeleteSchedule(ctx context.Context, r *fleetv1.DeleteScheduleRequest) (*fleetv1.DeleteScheduleResponse, error) {
	if err := f.svc.DeleteSchedule(ctx, r.GetName(), r.GetRequestId()); err != nil {
		return nil, err
	}
	return &fleetv1.DeleteScheduleResponse{Message: "Schedule deleted successfully"}, nil
}

// ListSchedules lists schedules.
func (f *Fleet) ListSchedules(ctx context.Context, r *fleetv1.ListSchedulesRequest) (*fleetv1.ListSchedulesResponse, error) {
	all, total, next, err := f.svc.ListSchedules(ctx, service.ListOwnedRequest{Selector: r.GetSelector(), PageRequest: cursorPageIn(r.GetCursor(), r.Limit)})
	if err != nil {
		return nil, err
	}
	resp := &fleetv1.ListSchedulesResponse{Schedules: make([]*fleetv1.Schedule, len(all)), TotalCount: int32Of(total), NextCursor: optional(next)}
	for i, v := range all {
		if resp.Schedules[i], err = scheduleOf(v); err != nil {
			return nil, err
		}
	}
	return resp, nil
}

// ShowSchedule shows a schedule.
func (f *Fleet) ShowSchedule(ctx context.Context, r *fleetv1.ShowScheduleRequest) (*fleetv1.ShowScheduleResponse, error) {
	v, err := f.svc.ShowSchedule(ctx, r.GetName())
	if err != nil {
		return nil, err
	}
	out, err := scheduleOf(v)
	return &fleetv1.ShowScheduleResponse{Schedule: out}, err
}

func scheduleOf(v *service.ScheduleView) (*fleetv1.Schedule, error) {
	task := &structpb.Struct{}
	if err := task.UnmarshalJSON(v.Task); err != nil {
		return nil, err
	}
	return &fleetv1.Schedule{
		Name: v.Name, Owner: v.Owner, Cron: v.Cron, At: timeOf(v.At), TimeZone: v.TimeZone, Missed: string(v.OnMissed), Overlap: string(v.Overlap), Labels: labelsOf(v.Labels),
		Task: task, Paused: v.Paused, NextTick: timeOf(v.NextTick), LastTick: timeOf(v.LastTick), LastTaskId: optional(v.LastTask), LastError: optional(textOf(v.LastError)),
		Queued: int32Of(int(v.Queued)), Skipped: int32Of(int(v.Skipped)), Late: int32Of(int(v.Missed)), Failed: int32Of(int(v.Failed)), CreatedAt: timeOf(v.CreatedAt),
	}, nil
}
