package rpc

import (
	"context"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/service"
)

// ShowTaskTree shows a task and the tasks that were delegated below it.
func (f *Fleet) ShowTaskTree(ctx context.Context, r *fleetv1.ShowTaskTreeRequest) (*fleetv1.ShowTaskTreeResponse, error) {
	tree, cut, err := f.svc.TaskTree(ctx, r.GetTaskId())
	if err != nil {
		return nil, err
	}
	return &fleetv1.ShowTaskTreeResponse{Tasks: listOf(tree, treeTaskOf), Truncated: optional(cut)}, nil
}

func treeTaskOf(t service.TreeTask) *fleetv1.TreeTask {
	row := &fleetv1.TreeTask{
		Id: t.ID, ParentTaskId: optional(t.ParentID), Depth: int32Of(t.Delegation.Depth), AgentName: t.AgentName, Summary: textOf(t.ShortHeadline()),
		Status: taskStatusOf(t.Status), Reason: textOf(t.Reason), CreatedAt: timeOf(t.CreatedAt), CompletedAt: timeOf(t.EndedAt),
		CostUsd: t.CostUSD, TreeCostUsd: t.TreeCostUSD, AwaitsResults: optional(t.Delegation.Waits), Detached: optional(t.Delegation.Detached),
	}
	if limit := t.Limit(); limit > 0 {
		row.LimitUsd = new(limit.USD())
	}
	return row
}
