package rpc

import (
	"context"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/service"
)

// usageKeys are the values of by in requests.
var usageKeys = map[fleetv1.ShowUsageRequest_By]fleet.UsageKey{
	fleetv1.ShowUsageRequest_by_unspecified: fleet.UsageByAgent,
	fleetv1.ShowUsageRequest_agents:         fleet.UsageByAgent,
	fleetv1.ShowUsageRequest_projects:       fleet.UsageByProject,
	fleetv1.ShowUsageRequest_owners:         fleet.UsageByOwner,
	fleetv1.ShowUsageRequest_days:           fleet.UsageByDay,
}

// ShowUsage sums up the usage of tasks.
func (f *Fleet) ShowUsage(ctx context.Context, r *fleetv1.ShowUsageRequest) (*fleetv1.ShowUsageResponse, error) {
	by, ok := usageKeys[r.GetBy()]
	if !ok {
		return nil, fleet.InvalidField("by", "by must be agents, projects, owners or days")
	}
	q := service.UsageRequest{By: by, Agent: r.GetAgentName(), Project: r.GetProject(), Selector: r.GetSelector()}
	var err error
	if q.Since, err = timeIn("since", r.GetSince()); err != nil {
		return nil, err
	}
	if q.Until, err = timeIn("until", r.GetUntil()); err != nil {
		return nil, err
	}
	u, err := f.svc.Usage(ctx, q)
	if err != nil {
		return nil, err
	}
	resp := &fleetv1.ShowUsageResponse{Total: usageOf(u.Total), Since: timeOf(u.Since)}
	for _, row := range u.Rows {
		resp.Rows = append(resp.Rows, &fleetv1.UsageRow{Key: textOf(row.Key), Owner: optional(row.Owner), Usage: usageOf(row)})
	}
	return resp, nil
}

func usageOf(u fleet.UsageRow) *fleetv1.Usage {
	return &fleetv1.Usage{
		Tasks: int32Of(u.Tasks), Completed: int32Of(u.Completed), Failed: int32Of(u.Failed), Stopped: int32Of(u.Stopped), CostUsd: u.CostUSD,
		InputTokens: float64(u.InputTokens), OutputTokens: float64(u.OutputTokens), ToolCalls: int32Of(int(u.ToolCalls)), Seconds: u.Took.Seconds(),
	}
}
