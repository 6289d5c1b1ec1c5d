package rpc

import (
	"context"
	"fmt"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/service"
)

// FanOutTask queues several tasks with the same prompt.
func (f *Fleet) FanOutTask(ctx context.Context, r *fleetv1.FanOutTaskRequest) (*fleetv1.FanOutTaskResponse, error) {
	q, err := queueTaskIn(copyFields(&fleetv1.QueueTaskRequest{}, r))
	if err != nil {
		return nil, err
	}
	tasks, err := f.svc.FanOutTask(ctx, service.FanOutRequest{QueueTaskRequest: q, Count: int(r.GetCount()), Models: r.GetModels()})
	if err != nil {
		return nil, err
	}
	return &fleetv1.FanOutTaskResponse{Tasks: listOf(tasks, taskOf), Message: fmt.Sprintf("%d tasks queued successfully", len(tasks))}, nil
}

// CompareFanOut compares the tasks of a fan-out.
func (f *Fleet) CompareFanOut(ctx context.Context, r *fleetv1.CompareFanOutRequest) (*fleetv1.CompareFanOutResponse, error) {
	comparison, err := f.svc.CompareFanOut(ctx, r.GetTaskId())
	if err != nil {
		return nil, err
	}
	out := &fleetv1.CompareFanOutResponse{Variants: variantsOf(comparison.Variants), Overlaps: listOf(comparison.Pairs, overlapOf)}
	if comparison.Problem != nil {
		out.OverlapsProblem = new(textOf(fleet.PublicMessage(comparison.Problem)))
	}
	return out, nil
}

// SettleFanOut chooses the work of one task of a fan-out. With abandon_others, it also abandons the work of the other tasks.
func (f *Fleet) SettleFanOut(ctx context.Context, r *fleetv1.SettleFanOutRequest) (*fleetv1.SettleFanOutResponse, error) {
	comparison, unfinished, err := f.svc.SettleFanOut(ctx, service.SettleFanOutRequest{TaskID: r.GetTaskId(), AbandonOthers: r.GetAbandonOthers(), RequestID: r.GetRequestId()})
	if err != nil {
		return nil, err
	}
	message := "The work is chosen"
	switch {
	case len(unfinished) > 0:
		message += fmt.Sprintf(", and other tasks have not ended yet (%d): repeat the call to continue", len(unfinished))
	case r.GetAbandonOthers():
		message += ", and that of the others is abandoned"
	}
	return &fleetv1.SettleFanOutResponse{Variants: variantsOf(comparison.Variants), UnfinishedTaskIds: unfinished, Message: message}, nil
}

func variantsOf(variants []*service.Variant) (all []*fleetv1.Variant) {
	for i, v := range variants {
		row := &fleetv1.Variant{
			Number: int32Of(i + 1), Task: taskOf(v.NewestTask()), Model: optional(textOf(v.Model())), Checks: checksOf(v.Checks), CostUsd: v.Cost,
			RunSeconds: int32Of(int(v.RunTime.Seconds())), Kept: v.Kept, TaskIds: listOf(v.Tasks, func(t *fleet.Task) string { return t.ID }),
		}
		if v.Work != nil {
			row.Landing = briefLandingOf(v.Work.Landing)
		}
		if v.Review != nil {
			row.Review = reviewOf(v.Review)
		}
		all = append(all, row)
	}
	return all
}
