package rpc

import (
	"context"
	"fmt"
	"strings"
	"time"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
)

// PlanBulk plans an operation on several agents or tasks, and changes nothing else.
func (f *Fleet) PlanBulk(ctx context.Context, r *fleetv1.PlanBulkRequest) (*fleetv1.PlanBulkResponse, error) {
	plan, err := f.svc.PlanBulk(ctx, fleet.BulkRequest{
		Operation: fleet.BulkOperation(nameIn(r.GetOperation())), Names: r.GetNames(), Selector: r.GetSelector(), All: r.GetAll(), Text: r.GetText(), Labels: labelsIn(r.GetLabels()), RemoveLabels: r.GetRemove(),
		Pool: r.GetPool(), Role: r.GetRole(), Update: r.GetUpdate(), KeepUnsaved: r.GetKeepUnsaved(),
		Priority: int(r.GetPriority()), Timeout: timeLimitIn(r.TimeoutSeconds), MaxCostUSD: r.MaxCostUsd,
	}, r.GetRequestId())
	if err != nil {
		return nil, err
	}
	failed, unchanged := plan.Count(fleet.BulkFailed), plan.Count(fleet.BulkUnchanged)
	message := fmt.Sprintf("The plan does %d of %d", len(plan.Items)-failed-unchanged, len(plan.Items))
	return &fleetv1.PlanBulkResponse{
		PlanId: plan.ID, Message: message + countsText(unchanged, failed, "cannot be done"), TotalCount: int32Of(len(plan.Items)),
		UnchangedCount: int32Of(unchanged), RefusedCount: int32Of(failed), Items: listOf(plan.Items, bulkItemOf),
	}, nil
}

// RunBulk runs a plan, and returns the results of its items. While the plan is unfinished, it returns only the items that failed.
func (f *Fleet) RunBulk(ctx context.Context, r *fleetv1.RunBulkRequest) (*fleetv1.RunBulkResponse, error) {
	plan, err := f.svc.RunBulk(ctx, r.GetPlanId(), time.Duration(r.GetWaitSeconds())*time.Second)
	if err != nil {
		return nil, err
	}
	done, failed, unchanged, pending := plan.Count(fleet.BulkDone), plan.Count(fleet.BulkFailed), plan.Count(fleet.BulkUnchanged), plan.Count(fleet.BulkPending)
	items := plan.Items
	message := fmt.Sprintf("Done: %d of %d", done, len(plan.Items)) + countsText(unchanged, failed, "failed")
	if pending > 0 {
		message += "; run_bulk with the same plan_id goes on"
		items = nil
		for _, i := range plan.Items {
			if i.Outcome == fleet.BulkFailed {
				items = append(items, i)
			}
		}
	}
	return &fleetv1.RunBulkResponse{
		Message: message, Unfinished: optional(pending > 0), TotalCount: int32Of(len(plan.Items)),
		DoneCount: int32Of(done), UnchangedCount: int32Of(unchanged), FailedCount: int32Of(failed), Items: listOf(items, bulkItemOf),
	}, nil
}

// countsText returns the numbers that are not 0, as the continuation of a sentence. failedText describes the failed
// items: "failed" or "cannot be done".
func countsText(unchanged, failed int, failedText string) string {
	var text strings.Builder
	if unchanged > 0 {
		fmt.Fprintf(&text, ", %d unchanged", unchanged)
	}
	if failed > 0 {
		fmt.Fprintf(&text, ", %d %s", failed, failedText)
	}
	return text.String()
}

func bulkItemOf(i fleet.BulkItem) *fleetv1.BulkItem {
	outcome := fleetv1.BulkItem_pending
	if i.Outcome != fleet.BulkPending {
		outcome = fleetv1.BulkItem_Outcome(fleetv1.BulkItem_Outcome_value[string(i.Outcome)])
	}
	return &fleetv1.BulkItem{
		AgentName: textOf(i.AgentName), Owner: i.Owner, TaskId: optional(i.TaskID), Effect: textOf(i.Effect), Outcome: outcome,
		Reason: optional(string(i.Reason)), Message: optional(textOf(i.Message)),
	}
}
